// Chunks of a state that a worker owns, as places and ranges. All by chunk, in the order of ParameterTable::chunks().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/optimizer.h"
#include "model/parameter_table.h"

namespace holdfast::model {

// The ranges of the chunks that have a place and are not awaited.
std::vector<OwnedElements> slices_of(std::span<const Elements> chunks, const std::vector<int64_t>& places,
                                     const std::vector<bool>& awaited);

// By chunk, where it begins if those that are owned lie end to end; -1: nowhere.
std::vector<int64_t> places_of(std::span<const Elements> chunks, const std::vector<bool>& owned);

int64_t elements_of(std::span<const Elements> chunks, const std::vector<bool>& owned);

}  // namespace holdfast::model
