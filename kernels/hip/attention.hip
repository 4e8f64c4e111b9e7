// The hip op set's attention.
#include "kernels/hip/attention_sizes.h"
#include "kernels/hip/hip_ops.h"

namespace holdfast::kernels::hip {

// Calls what(how the kernels are told of it).
template <typename Element>
template <typename What>
void HipOps<Element>::with_dropout(const Dropout& dropout, What what) {
  dropout.is_on() ? what(DropoutOfPass{dropout, pass_of_dropout()}) : what(NoDropout());
}

template <typename Element>
void HipOps<Element>::attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                                        const Dropout& dropout) {
  with_dropout(dropout, [&](auto dropped) { attention_forward_with(out, logsumexp, qkv, B, T, C, NH, dropped); });
}
template <typename Element>
void HipOps<Element>::attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp,
                                         int64_t B, int64_t T, int64_t C, int64_t NH, const Dropout& dropout) {
  with_dropout(dropout, [&](auto dropped) { attention_backward_with(dqkv, dout, qkv, out, logsumexp, B, T, C, NH, dropped); });
}

template <typename Element>
template <typename Dropped>
void HipOps<Element>::attention_forward_with(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C,
                                             int64_t NH, Dropped dropped) {
  const AttentionShape shape = shape_of(T, C, NH);
  auto* const to = reinterpret_cast<Element*>(out);
  const auto* from = reinterpret_cast<const Element*>(qkv);
  side_.join();
  if (is_chained<Element>(properties_, shape.HS)) {
    return with_chained_sizes<Element>(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
      launch(main_.stream, "attention_forward", attention_forward_chained<Element, Wave, Width, Dropped>,
             B * NH * blocks_for(T, kChainedRows), kChainedRows / kTile * Wave, to, logsumexp, from, shape, dropped);
    });
  }
  with_sizes(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
    constexpr int kRows = rows_forward<Element, Width>;
    launch(main_.stream, "attention_forward", hip::attention_forward<Element, Wave, Width, kRows, Dropped>,
           B * NH * blocks_for(T, kRows), kAttentionThreads, to, logsumexp, from, shape, dropped);
  });
}

template <typename Element>
template <typename Dropped>
void HipOps<Element>::attention_backward_with(Act* dqkv, const Act* dout, const Act* qkv, const Act* out,
                                              const float* logsumexp, int64_t B, int64_t T, int64_t C, int64_t NH,
                                              Dropped dropped) {
  const AttentionShape shape = shape_of(T, C, NH);
  const int64_t rows = B * NH * T;
  auto* const to = reinterpret_cast<Element*>(dqkv);
  const auto *dy = reinterpret_cast<const Element*>(dout), *from = reinterpret_cast<const Element*>(qkv);
  const auto acts = static_cast<size_t>(B * T * C) * sizeof(Element);
  side_.make_way({{dout, acts}, {qkv, 3 * acts}, {out, acts}, {logsumexp, static_cast<size_t>(rows) * sizeof(float)}},
                 {{dqkv, 3 * acts}});
  auto* const D = main_.scratch.get<float>(rows);
  launch(main_.stream, "attention_backward", attention_dot<Element>, blocks_for(rows, kThreads / kDotLanes), kThreads, D, dy,
         reinterpret_cast<const Element*>(out), rows, shape);
  if (is_chained<Element>(properties_, shape.HS)) {
    return with_chained_sizes<Element>(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
      const int64_t blocks = B * NH * blocks_for(T, kChainedRows);
      constexpr int kThreadsOfBlock = kChainedRows / kTile * Wave;
      launch(main_.stream, "attention_backward", attention_backward_queries_chained<Element, Wave, Width, Dropped>, blocks,
             kThreadsOfBlock, to, dy, from, logsumexp, D, shape, dropped);
      launch(main_.stream, "attention_backward", attention_backward_keys_chained<Element, Wave, Width, Dropped>, blocks,
             kThreadsOfBlock, to, dy, from, logsumexp, D, shape, dropped);
    });
  }
  with_sizes(properties_.wave, shape.HS, [&]<int Wave, int Width>() {
    constexpr int kRows = rows_backward<Element, Width>;
    const int64_t blocks = B * NH * blocks_for(T, kRows);
    launch(main_.stream, "attention_backward", attention_backward_queries<Element, Wave, Width, kRows, Dropped>, blocks,
           kAttentionThreads, to, dy, from, logsumexp, D, shape, dropped);
    launch(main_.stream, "attention_backward", attention_backward_keys<Element, Wave, Width, kRows, Dropped>, blocks,
           kAttentionThreads, to, dy, from, logsumexp, D, shape, dropped);
  });
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
