// What a job's gradients travel as between the ranks: its reduction and wire_dtype in one word.
//
// Exact: fixed-point integers (exponent_rule.h), the same bits at any world size. The others are float sums in the order of
// the ring (bfloat16 and float16 rounded at every hop), or 8-bit blocks with error feedback
// (collectives/quantized_reduce.h): all ranks have the same bits, but not at another world size. float16 has no scale: what is
// below 2^-25 vanishes, where bfloat16 has the range of float32 and fewer bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace holdfast::worker {

enum class WireType : uint8_t { kInt32, kInt16, kFloat32, kBFloat16, kFloat16, kInt8 };

// By the job spec's words. Nothing: the two do not go together, or are none that this worker knows. An empty `wire_dtype` is
// the reduction's default.
inline std::optional<WireType> wire_type_of(std::string_view reduction, std::string_view wire_dtype) {
  constexpr std::pair<std::string_view, WireType> kExact[] = {{"int32", WireType::kInt32}, {"int16", WireType::kInt16}};
  constexpr std::pair<std::string_view, WireType> kFloat[] = {{"float32", WireType::kFloat32},
                                                              {"bfloat16", WireType::kBFloat16},
                                                              {"float16", WireType::kFloat16},
                                                              {"int8", WireType::kInt8}};
  const auto find = [&](const auto& types) -> std::optional<WireType> {
    if (wire_dtype.empty()) return types[0].second;
    for (const auto& [word, type] : types) {
      if (word == wire_dtype) return type;
    }
    return std::nullopt;
  };
  if (reduction == "exact") return find(kExact);
  if (reduction == "float") return find(kFloat);
  return std::nullopt;
}

constexpr bool is_exact(WireType type) {
  return type == WireType::kInt32 || type == WireType::kInt16;
}

// Of an exact type's integers.
constexpr int integer_bits(WireType type) {
  return type == WireType::kInt16 ? 16 : 32;
}

// What one parameter's sum takes in a rank's memory: floats are rounded only for the wire.
constexpr size_t sum_bytes(WireType type) {
  return type == WireType::kInt16 ? sizeof(int16_t) : sizeof(int32_t);
}

}  // namespace holdfast::worker
