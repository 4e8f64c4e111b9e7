// A text on the left of == and a JSON value on the right: nlohmann-json 3.11.3 with GCC 14 (Debian 13) has no operator for
// them, older ones have. In tests none has, so that what compiles here compiles there: write value.get<std::string>().
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nlohmann {

bool operator==(const std::string& text, const json& value) = delete;
inline bool operator==(const json& value, const std::string& text) {
  return value == json(text);
}

}  // namespace nlohmann
