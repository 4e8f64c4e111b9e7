// Causal self-attention: a task is one head of one sequence; queries are taken kQueryRows at a time against all keys they see,
// so the block of scores stays in the second-level cache. Formulas in kernels/ref/attention.h; names as there.
// Operands of products lie where qkv and dout have them, or, where these are widened, in scratch; probabilities and their
// gradients are computed in float32 and rounded to operands.
// Bytes per head: qkv read once, out written once (backward: also dout and out read, dqkv written).
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"

namespace holdfast::kernels::cpu {

// Shapes, and where a head's tensors lie.
struct CpuOps::Attention {
  CpuOps& ops;
  int64_t T, C, NH, HS;
  float scale;
  Cut blocks;               // of queries
  int64_t qkv_row, dy_row;  // from one token's operands to the next one's

  Attention(CpuOps& owner, int64_t t, int64_t c, int64_t heads)
      : ops(owner),
        T(t),
        C(c),
        NH(heads),
        HS(c / heads),
        scale(1.0f / std::sqrt(static_cast<float>(HS))),
        blocks(Cut::of(kQueryRows, t)),
        qkv_row(owner.widens() ? HS : 3 * C),
        dy_row(owner.widens() ? HS : C) {}

  int64_t keys(int64_t block) const { return blocks.begin(block) + blocks.size(block); }

  // Row t of a head: in a (B, T, C) tensor, and in q of a (B, T, 3C) one, where k and v follow C and 2C later.
  int64_t row_of(int64_t head, int64_t t) const { return (head / NH * T + t) * C + head % NH * HS; }
  int64_t qkv_row_of(int64_t head, int64_t t) const { return (head / NH * T + t) * 3 * C + head % NH * HS; }

  // T rows of HS as operands: where they are, or widened into the next T * HS floats of `free`.
  const void* operand(const Act* x, int64_t first, int64_t row, float*& free) const {
    if (!ops.widens()) return ops.at(x, first);
    float* wide = free;
    for (int64_t t = 0; t < T; ++t) ops.elements_.to_float(wide + t * HS, ops.at(x, first + t * row), HS);
    free += T * HS;
    return wide;
  }

  // Products of a block of queries, which sees another number of keys than the next.
  ProductShape scores(int64_t block) const { return query_by_key(block, qkv_row); }
  ProductShape dp(int64_t block) const { return query_by_key(block, dy_row); }
  ProductShape output(int64_t block) const {  // and dq
    return {blocks.size(block), keys(block), HS, by_rows(T), by_rows(qkv_row), HS, false, ops.native_bfloat16_};
  }
  ProductShape dk(int64_t block) const { return key_by_query(block, qkv_row); }
  ProductShape dv(int64_t block) const { return key_by_query(block, dy_row); }

  void prepare(bool backward) const {
    for (int64_t block = 0; block < blocks.count; ++block) {
      ops.products_.prepare(scores(block));
      ops.products_.prepare(output(block));
      if (backward) ops.products_.prepare(dk(block));
    }
  }

  // The probabilities of query t, or their gradients, as far as it sees keys.
  void drop(float* row, const Dropout& dropout, int64_t head, int64_t t) const {
    if (dropout.is_on())
      ops.vectors_.floats.drop(row, dropout, dropout_row(ops.dropout_pass_, dropout.site, head * T + t), t + 1);
  }

  // A row of p or dp, rounded to operands at row r of `to`, which is where it lies already if operands are float32.
  void round(void* to, int64_t r, const float* row, int64_t width) const {
    if (ops.native_bfloat16_)
      ops.operands_.from_float(static_cast<char*>(to) + static_cast<size_t>(r * T) * ops.operand_size_, row, width);
  }

 private:
  ProductShape query_by_key(int64_t block, int64_t query_row) const {
    return {blocks.size(block), HS, keys(block), by_rows(query_row), transposed(qkv_row), T, false, ops.native_bfloat16_};
  }
  ProductShape key_by_query(int64_t block, int64_t query_row) const {
    return {keys(block), blocks.size(block), HS, transposed(T), by_rows(query_row), HS, true, ops.native_bfloat16_};
  }
};

void CpuOps::attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                               const Dropout& dropout) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  a.prepare(false);
  for (Scratch& scratch : per_thread_) scratch.floats(3 * T * HS + kQueryRows * (2 * T + HS + 1));
  team_.for_each(B * NH, [&](int64_t head, int thread) {
    float* p = per_thread_[static_cast<size_t>(thread)].floats(0);                  // (kQueryRows, T)
    void* rounded = native_bfloat16_ ? static_cast<void*>(p + kQueryRows * T) : p;  // (kQueryRows, T) operands
    float* y = p + 2 * kQueryRows * T;                                              // (kQueryRows, HS)
    float* sums = y + kQueryRows * HS;                                              // (kQueryRows)
    float* free = sums + kQueryRows;
    const int64_t first = a.qkv_row_of(head, 0);
    const void *q = a.operand(qkv, first, 3 * C, free), *k = a.operand(qkv, first + C, 3 * C, free),
               *v = a.operand(qkv, first + 2 * C, 3 * C, free);
    for (int64_t i = 0; i < a.blocks.count; ++i) {
      const int64_t begin = a.blocks.begin(i);
      products_.prepared(a.scores(i)).run(thread, operand_at(q, begin * a.qkv_row), k, p);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        float* row = p + r * T;
        logsumexp[head * T + begin + r] = vectors_.floats.softmax_row(row, sums + r, a.scale, begin + r + 1, a.keys(i));
        a.drop(row, dropout, head, begin + r);
        a.round(rounded, r, row, a.keys(i));
      }
      products_.prepared(a.output(i)).run(thread, rounded, v, y);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        elements_.scaled_from_float(at(out, a.row_of(head, begin + r)), y + r * HS, 1.0f / sums[r], HS);
      }
    }
  });
}

void CpuOps::attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                                int64_t T, int64_t C, int64_t NH, const Dropout& dropout) {
  const Attention a(*this, T, C, NH);
  const int64_t HS = a.HS;
  a.prepare(true);
  for (Scratch& scratch : per_thread_) scratch.floats(7 * T * HS + 4 * kQueryRows * T);
  team_.for_each(B * NH, [&](int64_t head, int thread) {
    float* dq = per_thread_[static_cast<size_t>(thread)].floats(0);
    float *dk = dq + T * HS, *dv = dk + T * HS;                                        // (T, HS)
    float *p = dv + T * HS, *dp = p + kQueryRows * T;                                  // (kQueryRows, T)
    void* rounded_p = native_bfloat16_ ? static_cast<void*>(dp + kQueryRows * T) : p;  // as operands
    void* rounded_dp = native_bfloat16_ ? static_cast<void*>(dp + 2 * kQueryRows * T) : dp;
    float* free = dp + 3 * kQueryRows * T;
    const int64_t first = a.qkv_row_of(head, 0);
    const void *q = a.operand(qkv, first, 3 * C, free), *k = a.operand(qkv, first + C, 3 * C, free),
               *v = a.operand(qkv, first + 2 * C, 3 * C, free), *dy = a.operand(dout, a.row_of(head, 0), C, free);
    std::memset(dk, 0, static_cast<size_t>(2 * T * HS) * sizeof(float));
    for (int64_t i = 0; i < a.blocks.count; ++i) {
      const int64_t begin = a.blocks.begin(i);
      const void *queries = operand_at(q, begin * a.qkv_row), *dys = operand_at(dy, begin * a.dy_row);
      products_.prepared(a.scores(i)).run(thread, queries, k, p);
      products_.prepared(a.dp(i)).run(thread, dys, v, dp);
      for (int64_t r = 0; r < a.blocks.size(i); ++r) {
        const int64_t row = a.row_of(head, begin + r);
        const float D = elements_.dot(at(dout, row), at(out, row), HS);
        a.drop(dp + r * T, dropout, head, begin + r);
        vectors_.floats.softmax_backward_row(p + r * T, dp + r * T, a.scale, logsumexp[head * T + begin + r], D, begin + r + 1,
                                             a.keys(i));
        a.drop(p + r * T, dropout, head, begin + r);
        a.round(rounded_p, r, p + r * T, a.keys(i));
        a.round(rounded_dp, r, dp + r * T, a.keys(i));
      }
      products_.prepared(a.output(i)).run(thread, rounded_dp, k, dq + begin * HS);
      products_.prepared(a.dk(i)).run(thread, rounded_dp, queries, dk);
      products_.prepared(a.dv(i)).run(thread, rounded_p, dys, dv);
    }
    for (int64_t t = 0; t < T; ++t) {
      const int64_t row = a.qkv_row_of(head, t);
      elements_.scaled_from_float(at(dqkv, row), dq + t * HS, a.scale, HS);
      elements_.scaled_from_float(at(dqkv, row + C), dk + t * HS, a.scale, HS);
      elements_.from_float(at(dqkv, row + 2 * C), dv + t * HS, HS);
    }
  });
}

}  // namespace holdfast::kernels::cpu
