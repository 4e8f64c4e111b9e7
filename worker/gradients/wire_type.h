// The number format in which a job's gradients travel between the ranks: its reduction and wire_dtype in one word.
//
// Exact types: fixed-point integers (exponent_rule.h), the same bits at any world size. The other types are float sums in the
// order of the ring (bfloat16 and float16 are rounded at every hop), or 8-bit blocks with error feedback
// (collectives/quantized_reduce.h): all ranks have the same bits, but another world size has others. float16 has no scale:
// numbers below 2^-25 vanish, where bfloat16 has the range of float32 and fewer bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rendezvous/protocol/wire_types.h"

namespace holdfast::worker {

// In the order of rendezvous::kWireTypes, so that a type is an index into that table.
enum class WireType : uint8_t { kInt32, kInt16, kFloat32, kBFloat16, kFloat16, kInt8 };

constexpr const rendezvous::WireTypeRow& row_of(WireType type) {
  return rendezvous::kWireTypes[static_cast<size_t>(type)];
}
static_assert(row_of(WireType::kInt32).name == "int32" && row_of(WireType::kInt16).name == "int16" &&
              row_of(WireType::kFloat32).name == "float32" && row_of(WireType::kBFloat16).name == "bfloat16" &&
              row_of(WireType::kFloat16).name == "float16" && row_of(WireType::kInt8).name == "int8");
static_assert(rendezvous::kWireTypes.size() == 6, "a new wire type needs its WireType, and its case in MeanGradient");

// The type that the job spec's words name; an empty `wire_dtype` is the reduction's default. Nothing when the two do not go
// together, or when this worker does not know them.
constexpr std::optional<WireType> wire_type_of(std::string_view reduction, std::string_view wire_dtype) {
  const rendezvous::WireTypeRow* const row =
      wire_dtype.empty() ? rendezvous::default_wire_type(reduction) : rendezvous::find_wire_type(wire_dtype);
  if (row == nullptr || row->reduction != reduction) return std::nullopt;
  return static_cast<WireType>(row - rendezvous::kWireTypes.data());
}

constexpr bool is_exact(WireType type) {
  return row_of(type).reduction == "exact";
}

// The width of an exact type's integers.
constexpr int integer_bits(WireType type) {
  return type == WireType::kInt16 ? 16 : 32;
}

// Bytes of one parameter's sum in a rank's memory: floats are rounded only for the wire.
constexpr size_t sum_bytes(WireType type) {
  return type == WireType::kInt16 ? sizeof(int16_t) : sizeof(int32_t);
}

}  // namespace holdfast::worker
