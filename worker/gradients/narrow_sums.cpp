#include "worker/gradients/narrow_sums.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "worker/collectives/half_floats.h"

namespace holdfast::worker {
namespace {

template <typename Narrow>
std::span<Narrow> lower_half(std::span<std::byte> result) {
  return {reinterpret_cast<Narrow*>(result.data()), result.size() / 4};
}

template <typename Narrow>
std::span<Narrow> upper_half(std::span<std::byte> result) {
  return {reinterpret_cast<Narrow*>(result.data() + result.size() / 2), result.size() / 4};
}

void convert(std::span<const int16_t> from, std::span<int32_t> to) {
  std::ranges::copy(from, to.begin());
}

template <typename Half>
void convert(std::span<const Half> from, std::span<float> to) {
  widen(from, to);
}

// Goes part by part through separate memory, because source and target overlap.
template <typename Narrow, typename Wide>
void widen_upper_half(std::span<std::byte> result) {
  std::array<Narrow, 2048> narrow_part;
  std::array<Wide, 2048> wide_part;
  const size_t count = result.size() / 4;
  for (size_t at = 0; at < count; at += narrow_part.size()) {
    const size_t size = std::min(narrow_part.size(), count - at);
    std::memcpy(narrow_part.data(), result.data() + (count + at) * sizeof(Narrow), size * sizeof(Narrow));
    convert(std::span<const Narrow>(narrow_part).first(size), std::span(wide_part).first(size));
    std::memcpy(result.data() + at * sizeof(Wide), wide_part.data(), size * sizeof(Wide));
  }
}

template <typename Half>
CollectiveResult<void> sum_as(Communicator& ring, std::span<const float> mine, std::span<std::byte> result) {
  const auto rounded = lower_half<Half>(result);
  narrow(mine, rounded);
  if (auto done = ring.all_reduce_sum(rounded, upper_half<Half>(result)); !done) return done;
  widen_upper_half<Half, float>(result);
  return {};
}

}  // namespace

CollectiveResult<void> sum_int16(Communicator& ring, std::span<const int16_t> mine, std::span<std::byte> result) {
  if (auto done = ring.all_reduce_sum(mine, upper_half<int16_t>(result)); !done) return done;
  widen_upper_half<int16_t, int32_t>(result);
  return {};
}

CollectiveResult<void> sum_int16_of_parts(Communicator& ring, std::span<const int16_t> mine, std::span<std::byte> result,
                                          std::span<const SumPart> parts) {
  if (auto done = ring.reduce_scatter_sum(mine, upper_half<int16_t>(result), parts); !done) return done;
  widen_upper_half<int16_t, int32_t>(result);
  return {};
}

CollectiveResult<void> sum_as_bfloat16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result) {
  return sum_as<BFloat16>(ring, mine, result);
}

CollectiveResult<void> sum_as_float16(Communicator& ring, std::span<const float> mine, std::span<std::byte> result) {
  return sum_as<Float16>(ring, mine, result);
}

}  // namespace holdfast::worker
