// Names, sizes and the binary16 conversions of dtype.h.
#include "kernels/dtype.h"

#include <array>

namespace holdfast::kernels {
namespace {

float float_of_half(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

}  // namespace

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "unknown";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

size_t dtype_size(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : 2;
}

uint16_t Float16::round(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 16) & 0x8000u;
  const uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // from 65520 on: rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the unit is 2^-24: adding 0.5 (whose own unit is 2^-24) rounds there, in hardware, ties to even.
    const auto rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

// By a table: the reference's loops widen each number that they multiply.
float Float16::widen(uint16_t bits) {
  static const auto kAll = [] {
    std::array<float, 65536> all{};
    for (uint32_t each = 0; each < all.size(); ++each) all[each] = float_of_half(static_cast<uint16_t>(each));
    return all;
  }();
  return kAll[bits];
}

}  // namespace holdfast::kernels
