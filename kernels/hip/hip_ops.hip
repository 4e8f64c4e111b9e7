// Elements, rows and sums of the hip op set; memory.hip, products.hip, attention.hip and decode/ have the rest.
#include "kernels/hip/hip_ops.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/hip/dropout.h"
#include "kernels/hip/elements.h"
#include "kernels/hip/queue/captured_sequence.h"
#include "kernels/hip/rows.h"
#include "kernels/hip/sums.h"

namespace holdfast::kernels::hip {
namespace {

constexpr int64_t kMostBlocks = 1 << 16;

// Of the kernels: their transcendental functions and the order of their sums are its work.
std::string compiler() {
#if defined(__CUDACC__)
  return "nvcc-" + std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__);
#elif defined(HOLDFAST_HIP_ON_CPU)
  return "on-cpu";
#else
  return "clang-" + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "+hip-" +
         std::to_string(HIP_VERSION);
#endif
}

float power_of_two(int exponent) {
  return static_cast<float>(std::ldexp(1.0, exponent));
}

template <typename Element>
Element* as(Act* x) {
  return reinterpret_cast<Element*>(x);
}
template <typename Element>
const Element* as(const Act* x) {
  return reinterpret_cast<const Element*>(x);
}

// Calls what.template operator()<Fours>() with what fours_of_row says.
template <typename What>
void with_fours_of_row(int64_t C, What what) {
  switch (fours_of_row(C)) {
    case kFoursOfRow[0]:
      return what.template operator()<kFoursOfRow[0]>();
    case kFoursOfRow[1]:
      return what.template operator()<kFoursOfRow[1]>();
    case kFoursOfRow[2]:
      return what.template operator()<kFoursOfRow[2]>();
    default:
      return what.template operator()<0>();
  }
}

}  // namespace

template <typename Element>
HipOps<Element>::HipOps(int device)
    : properties_(properties_of(device)),
      main_(device, Stream::Priority::kUsual),
      beside_(is_wanted("HOLDFAST_GPU_SIDE_STREAM") ? std::make_unique<Lane>(device, Stream::Priority::kLeast) : nullptr),
      side_(main_.stream, beside_ == nullptr ? main_.stream : beside_->stream),
      to_host_(device),
      to_device_(device),
      quick_copies_(main_.stream),
      logits_(main_.stream),
      dropout_pass_(main_.stream) {}

template <typename Element>
DeviceInfo HipOps<Element>::info() const {
  std::string numerics = "hip/" + properties_.architecture + "/" + compiler() + "/kernels-4";
  if (main_.library != nullptr) numerics.append("+").append(main_.library->name());
  return {"hip", properties_.name, numerics, properties_.memory_bytes, 0, properties_.pci_address};
}

template <typename Element>
std::unique_ptr<OpSequence> HipOps<Element>::make_sequence() {
  if (!is_wanted("HOLDFAST_GPU_GRAPHS")) return std::make_unique<OpSequence>();
  return std::make_unique<CapturedSequence>(
      main_.stream, side_, [this] { return main_.moves() + (beside_ == nullptr ? 0 : beside_->moves()) + logits_.moves(); });
}

template <typename Element>
DType HipOps<Element>::activation_dtype() const {
  if constexpr (std::is_same_v<Element, float>) return DType::kFloat32;
  return std::is_same_v<Element, BFloat16> ? DType::kBFloat16 : DType::kFloat16;
}

template <typename Element>
template <typename T>
void HipOps<Element>::fetch(T* host_to, const T* from, size_t count) {
  const size_t bytes = count * sizeof(T);
  work().use();
  if (result_.bytes() < bytes) result_ = PinnedMemory(bytes);
  main_.stream.copy_to_host(result_.data<T>(), from, bytes);
  main_.stream.wait();
  std::copy_n(result_.data<T>(), count, host_to);
}

// --- elements

template <typename Element>
template <typename... Parameters, typename... Arguments>
void HipOps<Element>::over_elements(const char* name, void (*kernel)(Parameters...), int64_t count, Arguments... arguments) {
  launch(work(), name, kernel, std::min(blocks_for(count, kThreads), kMostBlocks), kThreads, arguments...);
}

template <typename Element>
void HipOps<Element>::cast(Act* out, const float* in, int64_t count) {
  over_elements("cast", cast_elements<Element>, count, as<Element>(out), in, count);
}
template <typename Element>
void HipOps<Element>::adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count,
                            const AdamWStep& step) {
  over_elements("adamw", hip::adamw<float>, count, parameters, m, v, gradient, count, step);
}
template <typename Element>
void HipOps<Element>::nesterov(float* parameters, float* momentum, const float* gradient, int64_t count,
                               const NesterovStep& step) {
  over_elements("nesterov", hip::nesterov<float>, count, parameters, momentum, gradient, count, step);
}
template <typename Element>
void HipOps<Element>::subtract(float* out, const float* a, const float* b, int64_t count) {
  over_elements("subtract", hip::subtract<float>, count, out, a, b, count);
}
template <typename Element>
void HipOps<Element>::scale(float* out, const float* x, int64_t count, float factor) {
  over_elements("scale", scale_elements<float>, count, out, x, count, factor);
}
template <typename Element>
void HipOps<Element>::fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) {
  over_elements("fixed_accumulate", hip::fixed_accumulate<int32_t>, count, sums, x, count, power_of_two(exponent), first);
}
template <typename Element>
void HipOps<Element>::fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) {
  over_elements("fixed_accumulate", hip::fixed_accumulate<int16_t>, count, sums, x, count, power_of_two(exponent), first);
}
template <typename Element>
void HipOps<Element>::fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) {
  over_elements("fixed_unpack", hip::fixed_unpack<int32_t>, count, x, sums, count, scale);
}
template <typename Element>
void HipOps<Element>::fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) {
  over_elements("fixed_unpack", hip::fixed_unpack<int16_t>, count, x, sums, count, scale);
}
template <typename Element>
void HipOps<Element>::float_accumulate(float* sums, const float* x, int64_t count, bool first) {
  over_elements("float_accumulate", hip::float_accumulate<float>, count, sums, x, count, first);
}
template <typename Element>
void HipOps<Element>::add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) {
  over_elements("add_rows", hip::add_rows<int32_t>, R * C, sums, rows, ids, R * C, C);
}
template <typename Element>
void HipOps<Element>::add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) {
  over_elements("add_rows", hip::add_rows<int16_t>, R * C, sums, rows, ids, R * C, C);
}
template <typename Element>
void HipOps<Element>::add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) {
  over_elements("add_rows", hip::add_rows<float>, R * C, sums, rows, ids, R * C, C);
}

// --- sums

template <typename Element>
double HipOps<Element>::sum(const float* x, int64_t count) {
  if (count == 0) return 0;
  const int64_t pieces = blocks_for(count, kPiece);
  auto* const sums = main_.scratch.get<double>(pieces + 1);
  launch(work(), "sum", sum_pieces<float>, pieces, kSumThreads, sums, x, count);
  launch(work(), "sum", sum_of_pieces<double>, 1, kSumThreads, sums + pieces, sums, pieces);
  double total = 0;
  fetch(&total, sums + pieces, 1);
  return total;
}

template <typename Element>
void HipOps<Element>::sums_of_squares(double* host_sums, const Floats* of, size_t how_many) {
  ranges_.clear();
  int64_t pieces = 0;
  for (size_t i = 0; i < how_many; ++i) {
    ranges_.push_back({of[i].x, of[i].count, pieces});
    pieces += blocks_for(of[i].count, kPiece);
  }
  if (pieces == 0) {
    std::fill_n(host_sums, how_many, 0.0);
    return;
  }
  const auto count = static_cast<int64_t>(how_many);
  auto* const ranges = reinterpret_cast<PiecedRange*>(main_.scratch.get<char>(
      count * static_cast<int64_t>(sizeof(PiecedRange) + sizeof(double)) + pieces * static_cast<int64_t>(sizeof(double))));
  auto* const sums = reinterpret_cast<double*>(ranges + how_many);
  auto* const sums_of_pieces = sums + how_many;
  copy_to_device(ranges, ranges_.data(), how_many * sizeof(PiecedRange));
  launch(work(), "sum of squares", square_pieces<float>, pieces, kSumThreads, sums_of_pieces, ranges, count);
  launch(work(), "sum of squares", sums_of_ranges<double>, count, kSumThreads, sums, sums_of_pieces, ranges);
  fetch(host_sums, sums, how_many);
}

template <typename Element>
float HipOps<Element>::abs_max(const float* x, int64_t count) {
  float largest = 0;
  const Floats of{x, count};
  abs_maxima(&largest, &of, 1);
  return largest;
}

template <typename Element>
void HipOps<Element>::abs_maxima(float* host_largest, const Floats* of, size_t how_many) {
  int64_t pieces = 0;
  for (size_t i = 0; i < how_many; ++i) pieces += blocks_for(of[i].count, kPiece);
  if (pieces == 0) {
    std::fill_n(host_largest, how_many, 0.0F);
    return;
  }
  auto* const results = main_.scratch.get<float>(static_cast<int64_t>(how_many) + pieces);
  auto* next = reinterpret_cast<uint32_t*>(results + how_many);
  work().zero(results, how_many * sizeof(float));
  for (size_t i = 0; i < how_many; ++i) {
    const int64_t own = blocks_for(of[i].count, kPiece);
    if (own == 0) continue;
    launch(work(), "abs_max", largest_pieces<float>, own, kSumThreads, next, of[i].x, of[i].count);
    launch(work(), "abs_max", largest_of_pieces<float>, 1, kSumThreads, results + i, next, own);
    next += own;
  }
  fetch(host_largest, results, how_many);
}

// --- rows

template <typename Element>
void HipOps<Element>::encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                                      int64_t C) {
  over_elements("encoder_forward", hip::encoder_forward<Element>, B * T * C, out, tokens, as<Element>(wte), wpe, B * T * C, T,
                C);
}
template <typename Element>
void HipOps<Element>::encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) {
  over_elements("encoder_backward_positions", hip::encoder_backward_positions<float>, T * C, dwpe, dout, B, T * C);
}
template <typename Element>
void HipOps<Element>::encoder_backward_tokens(float* dwte, const float* dout, const TokenRuns& runs, int64_t C) {
  launch(work(), "encoder_backward_tokens", hip::encoder_backward_tokens<float>, runs.R * blocks_for(C, kRowThreads),
         kRowThreads, dwte, dout, runs, C);
}

template <typename Element>
void HipOps<Element>::set_dropout_pass(uint64_t pass) {
  copy_to_device(pass_of_dropout(), &pass, sizeof pass);
}
template <typename Element>
template <typename Number>
void HipOps<Element>::drop_numbers(Number* x, const Dropout& dropout, int64_t N, int64_t C) {
  side_.make_way({}, {{x, static_cast<size_t>(N * C) * sizeof(Number)}});
  launch(main_.stream, "dropout", drop_rows<Number>, N, kDropThreads, x, DropoutOfPass{dropout, pass_of_dropout()}, C);
}
template <typename Element>
void HipOps<Element>::drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) {
  drop_numbers(as<Element>(x), dropout, N, C);
}
template <typename Element>
void HipOps<Element>::drop(float* x, const Dropout& dropout, int64_t N, int64_t C) {
  drop_numbers(x, dropout, N, C);
}

template <typename Element>
void HipOps<Element>::layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in,
                                        const Act* x, const float* weight, const float* bias, int64_t N, int64_t C) {
  const auto acts = static_cast<size_t>(N * C) * sizeof(Element), floats = static_cast<size_t>(N * C) * sizeof(float),
             rows = static_cast<size_t>(N) * sizeof(float), channels = static_cast<size_t>(C) * sizeof(float);
  side_.make_way({{residual_in, floats}, {x, acts}, {weight, channels}, {bias, channels}},
                 {{out, acts}, {residual_out, floats}, {mean, rows}, {rstd, rows}});
  with_fours_of_row(C, [&]<int Fours>() {
    launch(main_.stream, "layernorm_forward", hip::layernorm_forward<Element, Fours>, blocks_for(N, rows_of_block<Fours>),
           kRowThreads, as<Element>(out), residual_out, mean, rstd, residual_in, as<Element>(x), weight, bias, N, C);
  });
}
template <typename Element>
void HipOps<Element>::layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout,
                                         const float* residual, const float* weight, const float* mean, const float* rstd,
                                         int64_t N, int64_t C) {
  const auto acts = static_cast<size_t>(N * C) * sizeof(Element), floats = static_cast<size_t>(N * C) * sizeof(float),
             rows = static_cast<size_t>(N) * sizeof(float), channels = static_cast<size_t>(C) * sizeof(float);
  side_.make_way({{dout, acts}, {residual, floats}, {weight, channels}, {mean, rows}, {rstd, rows}},
                 {{dresidual, floats}, {dx, acts}, {dweight, channels}, {dbias, channels}});
  with_fours_of_row(C, [&]<int Fours>() {
    const int64_t blocks = blocks_for(N, rows_of_block<Fours>), count = Fours > 0 ? blocks : blocks_for(N, kChunkRows);
    auto* const chunks = main_.scratch.get<float>(2 * count * C);
    launch(main_.stream, "layernorm_backward", layernorm_backward_rows<Element, Fours>, blocks, kRowThreads, dresidual,
           as<Element>(dx), chunks, as<Element>(dout), residual, weight, mean, rstd, N, C);
    if (Fours == 0) {
      launch(main_.stream, "layernorm_backward", layernorm_backward_chunks<Element>, count * blocks_for(C, kSumThreads),
             kSumThreads, chunks, as<Element>(dout), residual, mean, rstd, N, C);
    }
    launch(main_.stream, "layernorm_backward", sum_of_chunks<float>, blocks_for(2 * C, kLanes), kSumThreads, dweight, dbias,
           chunks, count, 2 * C, C);
  });
}

template class HipOps<float>;
template class HipOps<BFloat16>;
template class HipOps<Float16>;

}  // namespace holdfast::kernels::hip

namespace holdfast::kernels {

GpusFound find_hip_devices() {
  return hip::find_devices();
}

std::vector<int> hip_devices_by_preference() {
  std::vector<int> devices, integrated;
  for (int device = 0; device < hip::find_devices().count; ++device) {
    (hip::properties_of(device).is_integrated ? integrated : devices).push_back(device);
  }
  devices.insert(devices.end(), integrated.begin(), integrated.end());
  return devices;
}

std::string hip_device_identity(int device) {
  return hip::properties_of(device).identity;
}

std::unique_ptr<DeviceOps> make_hip_ops(DType activations, int device) {
  switch (activations) {
    case DType::kFloat32:
      return std::make_unique<hip::HipOps<float>>(device);
    case DType::kBFloat16:
      return std::make_unique<hip::HipOps<hip::BFloat16>>(device);
    default:
      return std::make_unique<hip::HipOps<hip::Float16>>(device);
  }
}

}  // namespace holdfast::kernels
