// Decoding with weights of int8. Bytes: a weight is read once per kInt8Rows rows of a call, a byte for each of its numbers.
#include "kernels/hip/decode/int8.h"

#include "kernels/hip/decode/decode.h"
#include "kernels/hip/product.h"

namespace holdfast::kernels::hip {
namespace {

template <typename Element>
void queue_as_int8(const Stream& stream, const Int8Rows& to, const Act* x, int64_t IC) {
  launch(stream, "rows of int8", rows_as_int8<Element>, blocks_for(to.count, kThreads / kLanes), kThreads, to,
         reinterpret_cast<const Element*>(x), IC);
}

}  // namespace

template <typename Element>
std::unique_ptr<DecodeOps::Weight> HipOps<Element>::Int8Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<KeptWeight>(this->ops_, OC, IC, static_cast<size_t>(Int8Rows::bytes_of(OC, IC)));
  queue_as_int8<Element>(this->ops_.work(), Int8Rows::at(kept->memory, OC, IC), weight, IC);
  return kept;
}

template <typename Element>
template <typename Epilogue>
void HipOps<Element>::Int8Decode::multiply(const Act* in, const KeptWeight& weight, int64_t N, const Epilogue& epilogue) {
  const Stream& stream = this->ops_.work();
  const Int8Rows rows = Int8Rows::at(rows_.template get<char>(Int8Rows::bytes_of(N, weight.IC)), N, weight.IC);
  queue_as_int8<Element>(stream, rows, in, weight.IC);
  launch(stream, "a product of int8", product_of_int8<Epilogue>,
         blocks_for(weight.OC, kInt8Threads / kLanes) * blocks_for(N, kInt8Rows), kInt8Threads, rows,
         Int8Rows::at(weight.memory, weight.OC, weight.IC), epilogue);
}

template <typename Element>
void HipOps<Element>::Int8Decode::linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue,
                                         int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(weight);
  auto* const to = reinterpret_cast<Element*>(out);
  if (epilogue == Epilogue::kGelu) {
    multiply(in, kept, N, StoreGelu<Element>{to, this->before_gelu(epilogue, N * kept.OC), bias, kept.OC});
  } else {
    multiply(in, kept, N, StoreActivations<Element>{to, bias, kept.OC});
  }
}

template <typename Element>
void HipOps<Element>::Int8Decode::logits(float* logits, const Act* x, const Weight& wte, int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(wte);
  multiply(x, kept, N, StoreFloats{logits, kept.OC, N * kept.OC, false});
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
