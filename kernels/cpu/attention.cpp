// Causal self-attention: a task is one head of one sequence; queries are taken kQueries at a time against all keys they see,
// so the block of scores stays in the second-level cache. Formulas in kernels/ref/attention.h; names as there.
// Queries are scaled by 1/sqrt(HS) when they are gathered. Products are float32 whatever the activations are.
// Bytes per head: qkv read once, out written once (backward: also dout and out read, dqkv written).
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kQueries = 128;

}  // namespace

// What forward and backward share: shapes, and a head's q, k, v as contiguous float32.
struct CpuOps::Attention {
  CpuOps& ops;
  int64_t T, C, NH, HS;
  float scale;
  Cut blocks;

  Attention(CpuOps& owner, int64_t t, int64_t c, int64_t heads)
      : ops(owner),
        T(t),
        C(c),
        NH(heads),
        HS(c / heads),
        scale(1.0f / std::sqrt(static_cast<float>(HS))),
        blocks(Cut::of(kQueries, t)) {}

  int64_t keys(int64_t block) const { return blocks.begin(block) + blocks.size(block); }

  // q (scaled), k, v (T, HS) of a head out of qkv (B, T, 3C)
  void gather(float* q, float* k, float* v, const Act* qkv, int64_t head) const {
    const int64_t first = head / NH * T * 3 * C + head % NH * HS;
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = first + t * 3 * C;
      ops.elements_.scaled_to_float(q + t * HS, ops.at(qkv, row), scale, HS);
      ops.elements_.to_float(k + t * HS, ops.at(qkv, row + C), HS);
      ops.elements_.to_float(v + t * HS, ops.at(qkv, row + 2 * C), HS);
    }
  }
  // Products of a block of queries, which sees another number of keys than the next. The one for dp has the shape of the one
  // for scores, dq of the output's, dk of dv's.
  ProductShape scores(int64_t block) const {
    return {blocks.size(block), HS, keys(block), by_rows(HS), transposed(HS), T, false, false};
  }
  ProductShape output(int64_t block) const {
    return {blocks.size(block), keys(block), HS, by_rows(T), by_rows(HS), HS, false, false};
  }
  ProductShape dkv(int64_t block) const {
    return {keys(block), blocks.size(block), HS, transposed(T), by_rows(HS), HS, true, false};
  }
  void prepare(bool backward) const {
    for (int64_t block = 0; block < blocks.count; ++block) {
      ops.products_.prepare(scores(block));
      ops.products_.prepare(output(block));
      if (backward) ops.products_.prepare(dkv(block));
    }
  }

  // Where row t of a head lies in a (B, T, C) tensor.
  int64_t row_of(int64_t head, int64_t t) const { return (head / NH * T + t) * C + head % NH * HS; }
};

void CpuOps::attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  a.prepare(false);
  for (Scratch& scratch : per_thread_) scratch.floats(3 * T * HS + kQueries * (T + HS + 1));
  team_.for_each(B * NH, [&](int64_t head, int thread) {
    float* q = per_thread_[static_cast<size_t>(thread)].floats(0);
    float *k = q + T * HS, *v = k + T * HS;  // (T, HS)
    float* p = v + T * HS;                   // (kQueries, T)
    float* y = p + kQueries * T;             // (kQueries, HS)
    float* sums = y + kQueries * HS;         // (kQueries)
    a.gather(q, k, v, qkv, head);
    for (int64_t i = 0; i < a.blocks.count; ++i) {
      const int64_t begin = a.blocks.begin(i);
      products_.prepared(a.scores(i)).run(thread, q + begin * HS, k, p);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        logsumexp[head * T + begin + r] = vectors_.floats.softmax_row(p + r * T, sums + r, begin + r + 1, a.keys(i));
      }
      products_.prepared(a.output(i)).run(thread, p, v, y);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        elements_.scaled_from_float(at(out, a.row_of(head, begin + r)), y + r * HS, 1.0f / sums[r], HS);
      }
    }
  });
}

void CpuOps::attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                                int64_t T, int64_t C, int64_t NH) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  a.prepare(true);
  for (Scratch& scratch : per_thread_) scratch.floats(7 * T * HS + 2 * kQueries * T);
  team_.for_each(B * NH, [&](int64_t head, int thread) {
    float* q = per_thread_[static_cast<size_t>(thread)].floats(0);
    float *k = q + T * HS, *v = k + T * HS, *dy = v + T * HS;       // (T, HS)
    float *dq = dy + T * HS, *dk = dq + T * HS, *dv = dk + T * HS;  // (T, HS)
    float *p = dv + T * HS, *dp = p + kQueries * T;                 // (kQueries, T)
    a.gather(q, k, v, qkv, head);
    for (int64_t t = 0; t < T; ++t) elements_.to_float(dy + t * HS, at(dout, a.row_of(head, t)), HS);
    std::memset(dk, 0, static_cast<size_t>(2 * T * HS) * sizeof(float));
    for (int64_t i = 0; i < a.blocks.count; ++i) {
      const int64_t begin = a.blocks.begin(i);
      const Product scores = products_.prepared(a.scores(i)), dq_product = products_.prepared(a.output(i)),
                    dkv_product = products_.prepared(a.dkv(i));
      scores.run(thread, q + begin * HS, k, p);
      scores.run(thread, dy + begin * HS, v, dp);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        const int64_t row = a.row_of(head, begin + r);
        vectors_.floats.softmax_backward_row(p + r * T, dp + r * T, logsumexp[head * T + begin + r],
                                             elements_.dot(at(dout, row), at(out, row), HS), begin + r + 1, a.keys(i));
      }
      dq_product.run(thread, dp, k, dq + begin * HS);
      dkv_product.run(thread, dp, q + begin * HS, dk);
      dkv_product.run(thread, p, dy + begin * HS, dv);
    }
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = (head / NH * T + t) * 3 * C + head % NH * HS;
      elements_.scaled_from_float(at(dqkv, row), dq + t * HS, a.scale, HS);
      elements_.from_float(at(dqkv, row + C), dk + t * HS, HS);
      elements_.from_float(at(dqkv, row + 2 * C), dv + t * HS, HS);
    }
  });
}

}  // namespace holdfast::kernels::cpu
