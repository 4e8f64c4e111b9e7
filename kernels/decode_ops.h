// Ops of a forward pass over rows of many sequences at once, whose keys and values are kept: for writing text.
//
// Letters, and further promises: ops.h.
// Promises: while keys and values are finite, a row's bits depend on its sequence alone: on the tokens before it and its
// position, and change neither with the number of rows in a call, nor with the calls in which the rows before it came, nor with
// their pages. (A value that is not finite may make NaNs of earlier rows that come in the same call, for an op set may multiply
// it by their probability of 0.) With weights of the activations' type they are those that it has in a forward pass by the
// DeviceOps that made this, over sequences of `longest` tokens. (A GPU's forward pass has other bits where its products are a
// vendor's library's, which depend on the number of rows: there the two are near each other, and equal with
// HOLDFAST_HIP_PRODUCTS=own, a choice of the build.) Keys and values are in pages of kPageTokens positions. A page's contents
// are the implementation's affair: it is copied or shared as bytes, and may be read by any number of sequences. Refuses:
// nothing at run time; sizes and positions are preconditions. Thread: that of the DeviceOps, which outlives this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace holdfast::kernels {

struct Act;
enum class Epilogue : uint8_t;

inline constexpr int64_t kPageTokens = 32;

// The numbers that weights are kept as. kInt8: a row w of a weight has most = max |w[i]|, the scale most / 127, and
// q[i] = w[i] * (127 / most) to the nearest whole number, ties to even; a row of `in` is taken as such a row whenever it is
// multiplied (Dettmers et al. 2022, "LLM.int8()", section 2.1: vectors of their own scales). A product is
// float(sum of q_in[i] * q_w[i]) * (scale of in * scale of w), where the sum is a whole number, exact, and each operation on
// floats is rounded by itself: the same bits from every op set that has the same `in`. Rows below kLeastInt8 are zeros; one
// that is not finite makes its products NaN.
//
// kInt4 (int4.h): of 32 numbers of a row the one of largest magnitude, the first of equals, divided by -8 and rounded to
// bfloat16, is the scale, and q[i] = w[i] / scale to the nearest whole number, ties to even, from -8 to 7. Products are those
// of kActivations with the weights q[i] * scale, rounded to the activations' type. Numbers that are all below kLeastInt8 are
// zeros; those of which one is not finite make their products NaN.
enum class WeightForm : uint8_t { kActivations, kInt8, kInt4 };
inline constexpr float kLeastInt8 = 0x1p-100F;

// Rows of a call that follow each other in one sequence: positions `position` .. `position + count - 1`.
struct SequenceRows {
  int64_t first_row;  // among the rows of the call
  int64_t count;
  int64_t position;
  const int32_t* pages;  // host memory: the page of positions 0 .. 31, that of 32 .. 63, ... up to the last row's
};

class DecodeOps {
 public:
  virtual ~DecodeOps() = default;

  // A matrix (OC, IC) as products read it. The memory it was made from is not needed any more.
  class Weight {
   public:
    virtual ~Weight() = default;
    virtual size_t bytes() const = 0;
  };
  virtual std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) = 0;

  // out (N, C) = wte[tokens] + wpe[positions]; tokens, positions (N): host memory.
  virtual void embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe, int64_t N,
                     int64_t C) = 0;
  // out (N, OC) = epilogue(in (N, IC) * weight^T + bias (OC)).
  virtual void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) = 0;

  // Bytes of a page of one layer: keys and values of kPageTokens positions.
  virtual size_t page_bytes(int64_t C, int64_t NH) const = 0;
  // Keeps keys and values of qkv (N, 3C) in their pages, then out (N, C) = attention of each row to its sequence up to itself.
  // Page p is at pages + p * page_bytes. A sequence has one SequenceRows a call, and no page that a row is written to is any
  // other's. A page that was filled is written to again from its first row on.
  virtual void attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences, int64_t longest,
                         int64_t C, int64_t NH) = 0;

  // Bytes from one place on the device to another; they do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  // logits (N, V) = x (N, C) * wte (V, C)^T.
  virtual void logits(float* logits, const Act* x, const Weight& wte, int64_t N) = 0;
  // host_losses (N, K) = minus the log-probabilities of the tokens host_ids (N, K) by their row of logits (N, V): what
  // head_loss says with such a target. Both are host memory.
  virtual void token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K,
                            int64_t V) = 0;
};

}  // namespace holdfast::kernels
