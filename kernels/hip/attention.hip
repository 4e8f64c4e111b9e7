// The hip op set's attention: which tiles a head's width and element take.
#include "kernels/hip/attention.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {
namespace {

// Shared memory stays below 48 KB.
template <typename Element, int Width>
constexpr int rows_forward = sizeof(Element) == 2 ? (Width <= 64 ? 64 : 32) : (Width <= 64 ? 32 : 16);
template <typename Element, int Width>
constexpr int rows_backward = sizeof(Element) == 2 || Width <= 64 ? 32 : 16;

AttentionShape shape_of(int64_t T, int64_t C, int64_t NH) {
  const auto HS = static_cast<int>(C / NH);
  if (HS > kWidestHead) {
    throw std::invalid_argument("heads of " + std::to_string(HS) + " channels: the hip device does up to " +
                                std::to_string(kWidestHead) + ": raise n_head");
  }
  return {T, C, NH, HS, 1.0F / std::sqrt(static_cast<float>(HS))};
}

// Calls what.template operator()<Wave, Width>().
template <typename What>
void with_sizes(int wave, int HS, What what) {
  const auto with_width = [&]<int Wave>() {
    if (HS <= 32) {
      what.template operator()<Wave, 32>();
    } else if (HS <= 64) {
      what.template operator()<Wave, 64>();
    } else {
      what.template operator()<Wave, 128>();
    }
  };
  wave == 64 ? with_width.template operator()<64>() : with_width.template operator()<32>();
}

}  // namespace

template <typename Element>
void HipOps<Element>::attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C,
                                        int64_t NH) {
  const AttentionShape shape = shape_of(T, C, NH);
  with_sizes(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
    constexpr int kRows = rows_forward<Element, Width>;
    launch(stream_, "attention_forward", hip::attention_forward<Element, Wave, Width, kRows>, B * NH * blocks_for(T, kRows),
           kAttentionThreads, reinterpret_cast<Element*>(out), logsumexp, reinterpret_cast<const Element*>(qkv), shape);
  });
}

template <typename Element>
void HipOps<Element>::attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp,
                                         int64_t B, int64_t T, int64_t C, int64_t NH) {
  const AttentionShape shape = shape_of(T, C, NH);
  const int64_t rows = B * NH * T;
  auto* const to = reinterpret_cast<Element*>(dqkv);
  const auto *dy = reinterpret_cast<const Element*>(dout), *from = reinterpret_cast<const Element*>(qkv);
  auto* const D = scratch_.get<float>(rows);
  launch(stream_, "attention_backward", attention_dot<Element>, blocks_for(rows, kThreads / kLanes), kThreads, D, dy,
         reinterpret_cast<const Element*>(out), rows, shape);
  with_sizes(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
    constexpr int kRows = rows_backward<Element, Width>;
    const int64_t blocks = B * NH * blocks_for(T, kRows);
    launch(stream_, "attention_backward", attention_backward_queries<Element, Wave, Width, kRows>, blocks, kAttentionThreads,
           to, dy, from, logsumexp, D, shape);
    launch(stream_, "attention_backward", attention_backward_keys<Element, Wave, Width, kRows>, blocks, kAttentionThreads, to,
           dy, from, logsumexp, D, shape);
  });
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
