// A small JSON file that anybody may have made, such as config.json.
//
// Refuses: files above a size, nesting above kDepthMax, and a key that an object has twice: readers would take one or the
// other. Errors name the file, and where in it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::model {

inline constexpr int kDepthMax = 32;

tl::expected<nlohmann::json, std::string> read_strict_json(const std::string& path, int64_t bytes_max);

}  // namespace holdfast::model
