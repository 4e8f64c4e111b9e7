// Causal self-attention: a task is one head of one sequence; queries are taken kQueries at a time against all keys they see,
// so the block of scores stays in the second-level cache. Formulas in kernels/ref/attention.h; names as there.
// Queries are scaled by 1/sqrt(HS) when they are gathered. Products are float32 whatever the activations are.
// Bytes per head: qkv read once, out written once (backward: also dout and out read, dqkv written).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"

namespace holdfast::kernels::cpu {
namespace {

constexpr int64_t kQueries = 128;
constexpr size_t kProductsMost = 1024;  // kept for lengths that are not in use now

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
  // Products of a block of queries. The one for dp has the shape of the one for scores, dq of the output's, dk of dv's.
  std::shared_ptr<const Product> scores_product(int64_t block) const {
    return make(blocks.size(block), HS, keys(block), by_rows(HS), transposed(HS), T);
  }
  std::shared_ptr<const Product> output_product(int64_t block) const {
    return make(blocks.size(block), keys(block), HS, by_rows(T), by_rows(HS), HS);
  }
  std::shared_ptr<const Product> dkv_product(int64_t block) const {
    return make(keys(block), blocks.size(block), HS, transposed(T), by_rows(HS), HS, true);
  }
  std::shared_ptr<const Product> make(int64_t m, int64_t k, int64_t n, Layout a, Layout b, int64_t c_width,
                                      bool add = false) const {
    return ops.products_.make({m, k, n, a, b, c_width, add, false});
  }

  // Where row t of a head lies in a (B, T, C) tensor.
  int64_t row_of(int64_t head, int64_t t) const { return (head / NH * T + t) * C + head % NH * HS; }
};

const CpuOps::AttentionProducts& CpuOps::attention_products(const Attention& attention, bool backward) {
  auto& all = attention_products_;
  const auto found =
      std::ranges::find_if(all, [&](const AttentionProducts& one) { return one.T == attention.T && one.HS == attention.HS; });
  if (found != all.end()) {
    all.splice(all.begin(), all, found);
  } else {
    size_t kept = 0;
    std::erase_if(all, [&](const AttentionProducts& one) { return (kept += one.count()) > kProductsMost; });
    all.push_front({attention.T, attention.HS, {}, {}, {}});
  }
  AttentionProducts& products = all.front();
  const auto fill = [&](std::vector<std::shared_ptr<const Product>>& list, auto product_of) {
    for (int64_t i = std::ssize(list); i < attention.blocks.count; ++i) list.push_back((attention.*product_of)(i));
  };
  fill(products.scores, &Attention::scores_product);
  fill(products.outputs, &Attention::output_product);
  if (backward) fill(products.dkvs, &Attention::dkv_product);
  return products;
}

void CpuOps::attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  const AttentionProducts& products = attention_products(a, false);
  const auto &scores = products.scores, &outputs = products.outputs;
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
      scores[static_cast<size_t>(i)]->run(thread, q + begin * HS, k, p);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        logsumexp[head * T + begin + r] = vectors_.floats.softmax_row(p + r * T, sums + r, begin + r + 1, a.keys(i));
      }
      outputs[static_cast<size_t>(i)]->run(thread, p, v, y);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        elements_.scaled_from_float(at(out, a.row_of(head, begin + r)), y + r * HS, 1.0f / sums[r], HS);
      }
    }
  });
  products_.check();
}

void CpuOps::attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                                int64_t T, int64_t C, int64_t NH) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  const AttentionProducts& products = attention_products(a, true);
  const auto &scores = products.scores, &dqs = products.outputs, &dkvs = products.dkvs;
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
      scores[static_cast<size_t>(i)]->run(thread, q + begin * HS, k, p);
      scores[static_cast<size_t>(i)]->run(thread, dy + begin * HS, v, dp);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        const int64_t row = a.row_of(head, begin + r);
        vectors_.floats.softmax_backward_row(p + r * T, dp + r * T, logsumexp[head * T + begin + r],
                                             elements_.dot(at(dout, row), at(out, row), HS), begin + r + 1, a.keys(i));
      }
      dqs[static_cast<size_t>(i)]->run(thread, dp, k, dq + begin * HS);
      dkvs[static_cast<size_t>(i)]->run(thread, dp, q + begin * HS, dk);
      dkvs[static_cast<size_t>(i)]->run(thread, p, dy + begin * HS, dv);
    }
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = (head / NH * T + t) * 3 * C + head % NH * HS;
      elements_.scaled_from_float(at(dqkv, row), dq + t * HS, a.scale, HS);
      elements_.from_float(at(dqkv, row + C), dk + t * HS, HS);
      elements_.from_float(at(dqkv, row + 2 * C), dv + t * HS, HS);
    }
  });
  products_.check();
}

}  // namespace holdfast::kernels::cpu
