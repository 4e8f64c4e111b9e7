// Decoding with weights of 4 bits. Bytes: a call reads a weight's 4.5 bits a number, and writes and reads as many numbers of
// the activations' type: memory is what is saved, not time.
#include "kernels/hip/decode/int4.h"

#include "kernels/hip/decode/decode.h"
#include "kernels/hip/product.h"

namespace holdfast::kernels::hip {

template <typename Element>
std::unique_ptr<DecodeOps::Weight> HipOps<Element>::Int4Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  const int64_t groups = int4_groups(IC);
  auto kept = std::make_unique<KeptWeight>(this->ops_, OC, IC, static_cast<size_t>(OC * groups) * sizeof(Int4Group));
  launch(this->ops_.work(), "rows of int4", rows_as_int4<Element>, blocks_for(OC * groups, kThreads), kThreads,
         static_cast<Int4Group*>(kept->memory), reinterpret_cast<const Element*>(weight), OC, IC, groups);
  return kept;
}

template <typename Element>
Operand<Element> HipOps<Element>::Int4Decode::values_of(const KeptWeight& weight) {
  auto* const values = values_.template get<Element>(weight.OC * weight.IC);
  launch(this->ops_.work(), "values of int4", rows_of_int4<Element>, blocks_for(weight.OC * weight.IC, kThreads), kThreads,
         values, static_cast<const Int4Group*>(weight.memory), weight.OC, weight.IC, int4_groups(weight.IC));
  return {values, weight.OC, weight.IC};
}

template <typename Element>
void HipOps<Element>::Int4Decode::linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue,
                                         int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(weight);
  this->ops_.own_linear(reinterpret_cast<Element*>(out), this->before_gelu(epilogue, N * kept.OC),
                        {reinterpret_cast<const Element*>(in), N, kept.IC}, values_of(kept), bias, kept.IC);
}

template <typename Element>
void HipOps<Element>::Int4Decode::logits(float* logits, const Act* x, const Weight& wte, int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(wte);
  this->ops_.own_logits(logits, kept.OC, {reinterpret_cast<const Element*>(x), N, kept.IC}, values_of(kept), kept.IC);
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
