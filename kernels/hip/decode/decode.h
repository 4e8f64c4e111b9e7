// The decode ops of the hip op set: products with kept weights (decode.hip; int8.hip; int4.hip) and attention to kept keys
// (attention.hip).
//
// Promises: those of decode_ops.h. Products are always our own kernel's (product.h), for a library's bits depend on how many
// rows a call has: so a row has the bits of a forward pass in builds without a library of products, or with
// HOLDFAST_HIP_PRODUCTS=own, and is near them in the others. Refuses: heads wider than kWidestHead (std::invalid_argument).
// Waits: token_losses, for what it returns; the others only where scratch grows. Throws DeviceError (runtime.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/decode_ops.h"
#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {

// Tokens, positions and the like come from the host in one copy each, in the order of the work.
template <typename Element>
class HipOps<Element>::Decode : public DecodeOps {
 public:
  explicit Decode(HipOps& ops) : ops_(ops), ids_(ops.main_.stream), losses_(ops.main_.stream), tables_(ops.main_.stream) {}
  ~Decode() override { ops_.finish_what_is_queued(); }

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;
  void embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe, int64_t N,
             int64_t C) override;
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override;
  size_t page_bytes(int64_t C, int64_t NH) const override;
  void attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences, int64_t longest,
                 int64_t C, int64_t NH) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override { ops_.work().copy_on_device(to, from, bytes); }
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override;
  void token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K, int64_t V) override;

 protected:
  // A weight of (OC, IC), in memory of its own.
  struct KeptWeight final : Weight {
    KeptWeight(HipOps& ops_of_it, int64_t outer, int64_t inner, size_t size)
        : ops(ops_of_it), OC(outer), IC(inner), memory(ops.allocate(size)), memory_bytes(size) {}
    ~KeptWeight() override { ops.release(memory); }
    size_t bytes() const override { return memory_bytes; }

    HipOps& ops;
    const int64_t OC, IC;
    void* const memory;
    const size_t memory_bytes;
  };
  const Stream& stream() const { return ops_.main_.stream; }
  // Memory for values before GELU, which nobody reads; null: there is no GELU.
  Element* before_gelu(Epilogue epilogue, int64_t count) {
    return epilogue == Epilogue::kGelu ? ops_.main_.scratch.template get<Element>(count) : nullptr;
  }

  HipOps& ops_;

 private:
  struct Tables;
  Tables tables_of(std::span<const SequenceRows> sequences, int64_t rows_of_tile);

  DeviceScratch ids_;           // tokens and positions of embed, or the ids of token_losses
  DeviceScratch losses_;        // of token_losses
  DeviceScratch tables_;        // of attention
  std::vector<int64_t> there_;  // the contents of tables_, once they are copied: a pass's layers bring the same
  uint64_t moves_there_ = 0;    // of tables_, when they were
};

// The same with weights of int8: WeightForm::kInt8 in decode_ops.h.
template <typename Element>
class HipOps<Element>::Int8Decode final : public HipOps<Element>::Decode {
 public:
  using Weight = DecodeOps::Weight;
  explicit Int8Decode(HipOps& ops) : Decode(ops), rows_(ops.main_.stream) {}

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override;
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override;

 private:
  using typename Decode::KeptWeight;

  template <typename Epilogue>
  void multiply(const Act* in, const KeptWeight& weight, int64_t N, const Epilogue& epilogue);

  DeviceScratch rows_;  // of the product at hand, as int8
};

// The same with weights of 4 bits: WeightForm::kInt4 in decode_ops.h.
template <typename Element>
class HipOps<Element>::Int4Decode final : public HipOps<Element>::Decode {
 public:
  using Weight = DecodeOps::Weight;
  explicit Int4Decode(HipOps& ops) : Decode(ops), values_(ops.main_.stream) {}

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override;
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override;
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override;

 private:
  using typename Decode::KeptWeight;

  Operand<Element> values_of(const KeptWeight& weight);  // until the next call

  DeviceScratch values_;
};

}  // namespace holdfast::kernels::hip
