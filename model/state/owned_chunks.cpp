#include "model/state/owned_chunks.h"

#include <utility>

namespace holdfast::model {

std::vector<OwnedElements> slices_of(std::span<const Elements> chunks, const std::vector<int64_t>& places,
                                     const std::vector<bool>& awaited) {
  std::vector<OwnedElements> slices;
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (places[c] < 0 || awaited[c]) continue;
    if (!slices.empty() && slices.back().elements.first + slices.back().elements.count == chunks[c].first) {
      slices.back().elements.count += chunks[c].count;
    } else {
      slices.push_back({chunks[c], places[c]});
    }
  }
  return slices;
}

std::vector<int64_t> places_of(std::span<const Elements> chunks, const std::vector<bool>& owned) {
  std::vector<int64_t> places;
  int64_t next = 0;
  for (size_t c = 0; c < chunks.size(); ++c) places.push_back(owned[c] ? std::exchange(next, next + chunks[c].count) : -1);
  return places;
}

int64_t elements_of(std::span<const Elements> chunks, const std::vector<bool>& owned) {
  int64_t elements = 0;
  for (size_t c = 0; c < chunks.size(); ++c) elements += owned[c] ? chunks[c].count : 0;
  return elements;
}

}  // namespace holdfast::model
