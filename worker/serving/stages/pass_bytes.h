// A pass and what a stage makes of it, as bytes; little-endian, of one layout for all stages of a model.
//
// A stage is a program that has some layers of a model that is divided. Promises: read_pass refuses, in words, every pass that
// a decoder may not be given: tokens, positions and pages out of range, more rows than its limit, bytes too few or too many.
// Thread: any; everything here is pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "model/decode/decoder.h"

namespace holdfast::worker {

std::string bytes_of(std::span<const model::Feed> feeds, const std::optional<model::BetweenLayers>& from);

struct ReceivedPass {
  std::vector<std::vector<int32_t>> tokens, pages;
  std::vector<model::Feed> feeds;  // over these
  std::vector<float> residual;
  std::vector<std::byte> branch;
  // Nothing for the first stage.
  std::optional<model::BetweenLayers> from() const;
};
// `is_first`: the stage has the first layer, so that nothing comes from one before.
tl::expected<ReceivedPass, std::string> read_pass(std::string_view bytes, const model::Decoder& decoder, bool is_first);

std::string bytes_of(const model::BetweenLayers& between);

// Holds what a stage answered to a pass of `rows`.
struct ReceivedRows {
  std::vector<float> residual;
  std::vector<std::byte> branch;
  model::BetweenLayers between() const { return {residual, branch}; }
};
tl::expected<ReceivedRows, std::string> read_rows(std::string_view bytes, int64_t floats, size_t branch_bytes);

}  // namespace holdfast::worker
