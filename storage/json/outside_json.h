// JSON from outside: a file or a message that anybody may have made. Nesting is bounded, for writing, copying and comparing a
// value recurse, and one that is nested deeply enough would end the program. Pure. Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace holdfast::storage {

inline constexpr int kJsonDepthMax = 64;

struct ParsedJson {
  nlohmann::json json;
  bool too_deep = false;
};
// json.is_discarded() when the text is not JSON, or is nested deeper than kJsonDepthMax.
ParsedJson parse_json(std::string_view text);

}  // namespace holdfast::storage
