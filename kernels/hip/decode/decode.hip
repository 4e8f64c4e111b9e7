// The hip op set's decode ops but for attention and int8. Bytes: a weight is read once per 64 or 128 rows of a call.
#include "kernels/hip/decode/decode.h"

#include "kernels/hip/decode/rows.h"
#include "kernels/hip/product.h"

namespace holdfast::kernels::hip {

template <typename Element>
std::unique_ptr<DecodeOps> HipOps<Element>::make_decode_ops(WeightForm form) {
  if (form == WeightForm::kInt8) return std::make_unique<Int8Decode>(*this);
  if (form == WeightForm::kInt4) return std::make_unique<Int4Decode>(*this);
  return std::make_unique<Decode>(*this);
}

template <typename Element>
std::unique_ptr<DecodeOps::Weight> HipOps<Element>::Decode::keep(const Act* weight, int64_t OC, int64_t IC) {
  auto kept = std::make_unique<KeptWeight>(ops_, OC, IC, static_cast<size_t>(OC * IC) * sizeof(Element));
  ops_.work().copy_on_device(kept->memory, weight, kept->memory_bytes);
  return kept;
}

template <typename Element>
void HipOps<Element>::Decode::embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte,
                                    const float* wpe, int64_t N, int64_t C) {
  std::vector<int32_t> both(tokens, tokens + N);
  both.insert(both.end(), positions, positions + N);
  auto* const ids = ids_.template get<int32_t>(2 * N);
  ops_.copy_to_device(ids, both.data(), both.size() * sizeof(int32_t));
  launch(ops_.work(), "embed", embed_rows<Element>, blocks_for(N * C, kThreads), kThreads, out, ids, ids + N,
         reinterpret_cast<const Element*>(wte), wpe, N * C, C);
}

template <typename Element>
void HipOps<Element>::Decode::linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue,
                                     int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(weight);
  ops_.work();
  ops_.own_linear(reinterpret_cast<Element*>(out), before_gelu(epilogue, N * kept.OC),
                  {reinterpret_cast<const Element*>(in), N, kept.IC},
                  {static_cast<const Element*>(kept.memory), kept.OC, kept.IC}, bias, kept.IC);
}

template <typename Element>
void HipOps<Element>::Decode::logits(float* logits, const Act* x, const Weight& wte, int64_t N) {
  const auto& kept = static_cast<const KeptWeight&>(wte);
  ops_.work();
  ops_.own_logits(logits, kept.OC, {reinterpret_cast<const Element*>(x), N, kept.IC},
                  {static_cast<const Element*>(kept.memory), kept.OC, kept.IC}, kept.IC);
}

template <typename Element>
void HipOps<Element>::Decode::token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N,
                                           int64_t K, int64_t V) {
  auto* const ids = ids_.template get<int32_t>(N * K);
  auto* const losses = losses_.template get<float>(N * K);
  ops_.copy_to_device(ids, host_ids, static_cast<size_t>(N * K) * sizeof(int32_t));
  launch(ops_.work(), "losses of tokens", losses_of_ids<float>, N, kHeadThreads, losses, logits, ids, K, V);
  ops_.copy_to_host(host_losses, losses, static_cast<size_t>(N * K) * sizeof(float));
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
