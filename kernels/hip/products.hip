// The hip op set's matrix products, and the head, which is three of them.
#include <algorithm>

#include "kernels/hip/head.h"
#include "kernels/hip/hip_ops.h"
#include "kernels/hip/product.h"

namespace holdfast::kernels::hip {
namespace {

#if defined(HOLDFAST_HIP_ON_CPU)
constexpr int64_t kManyPieces = 64;  // so that small tests have large cuts
#else
constexpr int64_t kManyPieces = 1024;  // some for each of a large GPU's processors
#endif
constexpr int64_t kShortestPart = 256;    // of K
constexpr int64_t kPartMultiple = 64;     // of K: strips of every type
constexpr int64_t kLogitsAlignment = 32;  // a row of logits begins at a multiple of so many
// A library's product with an odd side takes kernels that load one element at a time: cuBLASLt 13.0's take 3 to 5 times as long
// on an H200, where V is 50257. It is asked for as many columns as this divides, and the few others are our own kernel's.
constexpr int64_t kLibraryMultiple = 8;

int64_t round_up(int64_t x, int64_t to) {
  return (x + to - 1) / to * to;
}

// Decided by the shape alone, so that the bits do not depend on how large the GPU is.
struct ProductPlan {
  bool large;
  int64_t pieces, parts, K_part;
};
ProductPlan plan_of(int64_t M, int64_t N, int64_t K, bool in_parts) {
  const auto cut_in = [&](bool large) {
    const int64_t side = large ? 128 : 64, enough = large ? kManyPieces / 4 : kManyPieces;
    ProductPlan plan{large, blocks_for(M, side) * blocks_for(N, side), 1, 0};
    while (in_parts && plan.pieces * plan.parts < enough && K / (2 * plan.parts) >= kShortestPart) plan.parts *= 2;
    plan.K_part = round_up(blocks_for(K, plan.parts), kPartMultiple);
    plan.parts = blocks_for(K, plan.K_part);
    return plan;
  };
  const ProductPlan large = cut_in(true);
  return large.pieces * large.parts >= kManyPieces / 4 ? large : cut_in(false);
}

template <bool ARows, bool BRows, int Wave, typename By, typename Element, typename Epilogue>
void launch_product(const Stream& stream, const ProductPlan& plan, Operand<Element> A, Operand<Element> B, int64_t K,
                    Epilogue epilogue) {
  launch(stream, "a matrix product", product<Element, Wave, By, ARows, BRows, Epilogue>, plan.pieces * plan.parts, By::kThreads,
         A, B, K, plan.K_part, epilogue);
}

template <bool ARows, bool BRows, typename Element, typename Epilogue>
void multiply(const Stream& stream, int wave, const ProductPlan& plan, Operand<Element> A, Operand<Element> B, int64_t K,
              Epilogue epilogue) {
  if (wave == 64) {
    plan.large ? launch_product<ARows, BRows, 64, LargeCut>(stream, plan, A, B, K, epilogue)
               : launch_product<ARows, BRows, 64, SmallCut>(stream, plan, A, B, K, epilogue);
  } else {
    plan.large ? launch_product<ARows, BRows, 32, LargeCut>(stream, plan, A, B, K, epilogue)
               : launch_product<ARows, BRows, 32, SmallCut>(stream, plan, A, B, K, epilogue);
  }
}

template <typename Element>
const Element* as(const Act* x) {
  return reinterpret_cast<const Element*>(x);
}
template <typename Element>
Element* as(Act* x) {
  return reinterpret_cast<Element*>(x);
}

}  // namespace

template <typename Element>
template <bool ARowsContiguous, bool BRowsContiguous, typename A, typename B>
bool HipOps<Element>::by_library(Lane& lane, const LibraryProducts::Result& result, const A& a, const B& b, int64_t K) {
  const DType dtype = activation_dtype();
  const LibraryProducts::Operand first{a.data, dtype, a.stride, ARowsContiguous},
      second{b.data, dtype, b.stride, BRowsContiguous};
  return lane.library != nullptr && lane.library->multiply(result, first, second, a.rows, b.rows, K);
}

template <typename Element>
const void* HipOps<Element>::bias_of_activations(const float* bias, int64_t count) {
  if constexpr (std::is_same_v<Element, float>) return bias;
  auto* const cast_bias = main_.scratch.get<Element>(count);
  launch(main_.stream, "a bias", cast_elements<Element>, blocks_for(count, kThreads), kThreads, cast_bias, bias, count);
  return cast_bias;
}

template <typename Element>
template <bool ARowsContiguous, bool BRowsContiguous, typename A, typename B>
void HipOps<Element>::product_of_floats(float* out, A a, B b, int64_t K, bool add) {
  const int64_t M = a.rows, N = b.rows;
  if (by_library<ARowsContiguous, BRowsContiguous>(main_, {out, DType::kFloat32, N, add}, a, b, K)) return;
  const ProductPlan plan = plan_of(M, N, K, true);
  if (plan.parts == 1) {
    multiply<ARowsContiguous, BRowsContiguous>(main_.stream, properties_.wave, plan, a, b, K, StoreFloats{out, N, M * N, add});
    return;
  }
  auto* const parts = main_.parts.get<float>(plan.parts * M * N);
  multiply<ARowsContiguous, BRowsContiguous>(main_.stream, properties_.wave, plan, a, b, K,
                                             StoreFloats{parts, N, M * N, false});
  launch(main_.stream, "a matrix product's parts", sum_of_parts<float>, blocks_for(M * N, kThreads), kThreads, out, out, parts,
         M * N, plan.parts, M * N, add);
}

template <typename Element>
void HipOps<Element>::gradients_of_weights(Lane& lane, float* dweight, float* dbias, const Element* dout, const Element* in,
                                           int64_t N, int64_t IC, int64_t OC) {
  const Operand<Element> A{dout, OC, OC}, B{in, IC, IC};
  if (by_library<true, true>(lane, {dweight, DType::kFloat32, IC}, A, B, N)) return sum_columns(lane, dbias, dout, N, OC);
  const ProductPlan plan = plan_of(OC, IC, N, true);
  const int64_t weights = OC * IC, all = weights + OC;
  if (plan.parts == 1) {
    multiply<true, true>(lane.stream, properties_.wave, plan, A, B, N, StoreFloatsAndRowSums{dweight, dbias, IC, 0});
    return;
  }
  auto* const parts = lane.parts.get<float>(plan.parts * all);
  multiply<true, true>(lane.stream, properties_.wave, plan, A, B, N, StoreFloatsAndRowSums{parts, parts + weights, IC, all});
  launch(lane.stream, "a matrix product's parts", sum_of_parts<float>, blocks_for(all, kThreads), kThreads, dweight, dbias,
         parts, all, plan.parts, weights, false);
}

template <typename Element>
void HipOps<Element>::matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias,
                                     Epilogue epilogue, int64_t N, int64_t IC, int64_t OC) {
  side_.join();
  const Operand<Element> A{as<Element>(in), N, IC}, B{as<Element>(weight), OC, IC};
  const bool is_gelu = epilogue == Epilogue::kGelu;
  if (main_.library != nullptr &&
      by_library<false, false>(
          main_, {out, activation_dtype(), OC, false, bias_of_activations(bias, OC), is_gelu ? pre_gelu : nullptr}, A, B, IC)) {
    return;
  }
  own_linear(as<Element>(out), is_gelu ? as<Element>(pre_gelu) : nullptr, A, B, bias, IC);
}

template <typename Element>
void HipOps<Element>::own_linear(Element* out, Element* pre_gelu, const Operand<Element>& in, const Operand<Element>& weight,
                                 const float* bias, int64_t IC) {
  const ProductPlan plan = plan_of(in.rows, weight.rows, IC, false);
  if (pre_gelu != nullptr) {
    multiply<false, false>(main_.stream, properties_.wave, plan, in, weight, IC,
                           StoreGelu<Element>{out, pre_gelu, bias, weight.rows});
  } else {
    multiply<false, false>(main_.stream, properties_.wave, plan, in, weight, IC,
                           StoreActivations<Element>{out, bias, weight.rows});
  }
}

template <typename Element>
void HipOps<Element>::sum_columns(Lane& lane, float* out, const Element* x, int64_t N, int64_t C) {
  const int64_t chunks = blocks_for(N, kChunkRows), column_blocks = blocks_for(C, kSumThreads);
  auto* const sums = lane.scratch.get<float>(chunks * C);
  launch(lane.stream, "sums of columns", column_chunks<Element>, chunks * column_blocks, kSumThreads, sums, x, N, C);
  launch(lane.stream, "sums of columns", sum_of_chunks<float>, blocks_for(C, kLanes), kSumThreads, out, out, sums, chunks, C,
         C);
}

template <typename Element>
void HipOps<Element>::gradient_of_input(Element* din, const Element* dout, const Element* pre_gelu, const Element* weight,
                                        int64_t N, int64_t IC, int64_t OC) {
  const Operand<Element> A{dout, N, OC}, B{weight, IC, IC};
  const ProductPlan plan = plan_of(N, IC, OC, false);
  if (by_library<false, true>(main_, {din, activation_dtype(), IC}, A, B, OC)) {
    if (pre_gelu == nullptr) return;
    launch(main_.stream, "gelu_slope", times_gelu_slope<Element>, blocks_for(N * IC, 4 * kThreads), kThreads, din, pre_gelu,
           N * IC);
  } else if (pre_gelu != nullptr) {
    multiply<false, true>(main_.stream, properties_.wave, plan, A, B, OC, StoreTimesSlope<Element>{din, pre_gelu, IC});
  } else {
    multiply<false, true>(main_.stream, properties_.wave, plan, A, B, OC, StoreActivations<Element>{din, nullptr, IC});
  }
}

// The gradients of the weights beside that of the input, which others wait for: it is queued first.
template <typename Element>
void HipOps<Element>::matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in,
                                      const Act* pre_gelu, const Act* weight, int64_t N, int64_t IC, int64_t OC) {
  const auto acts = [](const Act* x, int64_t count) { return MemoryRange{x, static_cast<size_t>(count) * sizeof(Element)}; };
  const auto floats = [](float* x, int64_t count) { return MemoryRange{x, static_cast<size_t>(count) * sizeof(float)}; };
  const MemoryRange input = acts(in, N * IC), output = acts(dout, N * OC), into = acts(din, N * IC),
                    weights = floats(dweight, OC * IC), biases = floats(dbias, OC);
  side_.make_way({output, acts(pre_gelu, N * IC), acts(weight, OC * IC)}, {into});
  const bool is_beside = beside_ != nullptr && !overlap(into, input) && !overlap(into, output);
  if (is_beside) side_.begin();
  gradient_of_input(as<Element>(din), as<Element>(dout), as<Element>(pre_gelu), as<Element>(weight), N, IC, OC);
  if (!is_beside) side_.make_way({input, output}, {weights, biases});
  gradients_of_weights(is_beside ? *beside_ : main_, dweight, dbias, as<Element>(dout), as<Element>(in), N, IC, OC);
  if (is_beside) side_.end({input, output}, {weights, biases});
}

template <typename Element>
void HipOps<Element>::logits_of(float* logits, int64_t stride, const Element* x, const Element* wte, int64_t rows, int64_t C,
                                int64_t V) {
  const Operand<Element> A{x, rows, C};
  const int64_t whole = V / kLibraryMultiple * kLibraryMultiple;
  const bool done = by_library<false, false>(main_, {logits, DType::kFloat32, stride}, A, Operand<Element>{wte, whole, C}, C);
  const int64_t first = done ? whole : 0;
  if (first < V) own_logits(logits + first, stride, A, {wte + first * C, V - first, C}, C);
}

template <typename Element>
void HipOps<Element>::own_logits(float* logits, int64_t stride, const Operand<Element>& x, const Operand<Element>& wte,
                                 int64_t C) {
  multiply<false, false>(main_.stream, properties_.wave, plan_of(x.rows, wte.rows, C, false), x, wte, C,
                         StoreFloats{logits, stride, x.rows * stride, false});
}

template <typename Element>
void HipOps<Element>::cross_entropy_of(float* losses, Element* dlogits, float* logits, const Element* x, const Element* wte,
                                       const int32_t* targets, int64_t rows, int64_t C, int64_t V, float scale) {
  const int64_t stride = round_up(V, kLogitsAlignment);
  for (int64_t first = 0; first < rows; first += kLogitRows) {
    const int64_t count = std::min(kLogitRows, rows - first);
    logits_of(logits, stride, x + first * C, wte, count, C, V);
    launch(main_.stream, "cross_entropy", cross_entropy<Element>, count, kHeadThreads, losses + first,
           dlogits == nullptr ? dlogits : dlogits + first * stride, logits, targets + first, V, stride, scale);
  }
}

template <typename Element>
void HipOps<Element>::head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                                int64_t V) {
  side_.join();
  auto* const logits = logits_.get<float>(kLogitRows * round_up(V, kLogitsAlignment));
  cross_entropy_of(losses, nullptr, logits, as<Element>(x), as<Element>(wte), targets, N, C, V, 1.0F);
}

// By way of floats where V is cut: its parts are added before they are rounded.
template <typename Element>
void HipOps<Element>::gradient_of_inputs(Element* dx, const Element* dlogits, const Element* wte, int64_t rows, int64_t C,
                                         int64_t V) {
  const int64_t stride = round_up(V, kLogitsAlignment), whole = V / kLibraryMultiple * kLibraryMultiple;
  const Operand<Element> A{dlogits, rows, stride}, B{wte, C, C};
  if (whole == V && by_library<false, true>(main_, {dx, activation_dtype(), C}, A, B, V)) return;
  auto* const floats = main_.scratch.get<float>(rows * C);
  if (whole < V && by_library<false, true>(main_, {floats, DType::kFloat32, C}, A, B, whole)) {
    multiply<false, true>(main_.stream, properties_.wave, plan_of(rows, C, V - whole, false),
                          Operand<Element>{dlogits + whole, rows, stride}, Operand<Element>{wte + whole * C, C, C}, V - whole,
                          StoreFloats{floats, C, rows * C, true});
  } else {
    product_of_floats<false, true>(floats, A, B, V, false);
  }
  launch(main_.stream, "head_loss_backward", cast_elements<Element>, blocks_for(rows * C, kThreads), kThreads, dx, floats,
         rows * C);
}

template <typename Element>
void HipOps<Element>::head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte,
                                         const int32_t* targets, int64_t N, int64_t C, int64_t V, float scale) {
  side_.join();
  const int64_t stride = round_up(V, kLogitsAlignment), chunk = std::min(kLogitGradientRows, N);
  const auto logit_bytes = static_cast<int64_t>(sizeof(float)), gradient_bytes = static_cast<int64_t>(sizeof(Element));
  auto* const logits =
      reinterpret_cast<float*>(logits_.get<char>((kLogitRows * logit_bytes + chunk * gradient_bytes) * stride));
  auto* const dlogits = reinterpret_cast<Element*>(logits + kLogitRows * stride);
  for (int64_t first = 0; first < N; first += chunk) {
    const int64_t rows = std::min(chunk, N - first);
    const Element* inputs = as<Element>(x) + first * C;
    cross_entropy_of(losses + first, dlogits, logits, inputs, as<Element>(wte), targets + first, rows, C, V,
                     scale / static_cast<float>(N));
    gradient_of_inputs(as<Element>(dx) + first * C, dlogits, as<Element>(wte), rows, C, V);
    product_of_floats<true, true>(dwte, Operand<Element>{dlogits, V, stride}, Operand<Element>{inputs, C, C}, rows, first > 0);
  }
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip
