#include "model/exchange/strict_json.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace holdfast::model {

namespace {

using nlohmann::json;

json parse_strictly(const std::string& text) {
  std::vector<std::set<std::string>> keys;  // of the objects under way
  return json::parse(text, [&keys](int depth, json::parse_event_t event, json& parsed) {
    using enum json::parse_event_t;
    if (depth > kDepthMax) throw std::runtime_error(fmt::format("is nested more than {} deep", kDepthMax));
    if (event == object_start) keys.emplace_back();
    if (event == object_end) keys.pop_back();
    if (event == key && !keys.back().insert(parsed.get<std::string>()).second)
      throw std::runtime_error(fmt::format("has the key {} twice", parsed.dump(-1, ' ', true)));
    return true;
  });
}

}  // namespace

tl::expected<json, std::string> read_strict_json(const std::string& path, int64_t bytes_max) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(bytes_max) + 1, ' ');
  if (!file || !(file.read(text.data(), static_cast<std::streamsize>(text.size())) || file.eof()))
    return tl::unexpected(fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) > bytes_max)
    return tl::unexpected(fmt::format("{}: has more than {} bytes, expected a small JSON file", path, bytes_max));
  try {
    return parse_strictly(text);
  } catch (const json::parse_error& error) {
    return tl::unexpected(fmt::format("{}: is not JSON, at byte {}", path, error.byte));
  } catch (const json::out_of_range&) {  // as 1e999 is, which the grammar allows
    return tl::unexpected(fmt::format("{}: has a number that is larger than any", path));
  } catch (const std::runtime_error& error) {
    return tl::unexpected(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace holdfast::model
