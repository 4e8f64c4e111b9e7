// The table of wire types: the number formats in which a job's gradients travel between its workers.
//
// The job spec's checks, its command-line flags, the planner and the worker's own enumeration derive from this table; a new
// wire type begins as a row here, and tests name the places that must follow (tests/rendezvous/protocol/wire_types_test.cpp).
// Each type belongs to one reduction. Order: the widest first, and the types of "exact" before those of "float"; the first
// type of a reduction is its default.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::rendezvous {

struct WireTypeRow {
  std::string_view name;       // the job spec's wire_dtype
  std::string_view reduction;  // the job spec's reduction that it goes with: "exact" or "float"
  double bytes_per_element;    // on the wire
  bool all_to_all_first;       // blocks go to their owner rank before they are summed, instead of round the ring
};

inline constexpr size_t kInt8BlockElements = 512;  // for int8: this number of elements shares one float32 scale

inline constexpr std::array<WireTypeRow, 6> kWireTypes{{
    {"int32", "exact", 4, false},
    {"int16", "exact", 2, false},
    {"float32", "float", 4, false},
    {"bfloat16", "float", 2, false},
    {"float16", "float", 2, false},
    {"int8", "float", 1 + 4.0 / kInt8BlockElements, true},
}};

// Null for a name that is not in the table.
constexpr const WireTypeRow* find_wire_type(std::string_view name) {
  for (const WireTypeRow& row : kWireTypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Null for a reduction that is not in the table.
constexpr const WireTypeRow* default_wire_type(std::string_view reduction) {
  for (const WireTypeRow& row : kWireTypes) {
    if (row.reduction == reduction) return &row;
  }
  return nullptr;
}

// Every name, in the table's order.
std::vector<std::string> wire_type_names();
// For people: "float32, bfloat16, float16 or int8".
std::string wire_types_in_words(std::string_view reduction);

}  // namespace holdfast::rendezvous
