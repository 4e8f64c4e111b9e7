#include "model/data/describe.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/data/small_file.h"
#include "model/data/token_file.h"
#include "storage/json/outside_json.h"

namespace holdfast::model {

namespace {

std::string read_info(const std::filesystem::path& path) {
  const auto text = read_small_file(path.string());
  return text && storage::parse_json(*text).json.is_object() ? *text : "";
}

bool is_listed(const std::string& info, const std::string& digest) {
  if (info.empty()) return false;
  const nlohmann::json parsed = nlohmann::json::parse(info);
  for (const char* split : {"train", "validation"}) {
    const auto found = parsed.find(split);
    if (found != parsed.end() && found->is_object() && found->value("digest", nlohmann::json()) == digest) return true;
  }
  return false;
}

int64_t mark_of(const std::string& info) {
  const nlohmann::json mark =
      info.empty() ? nlohmann::json() : nlohmann::json::parse(info).value("end_of_document", nlohmann::json());
  return mark.is_number_integer() && mark.get<int64_t>() >= 0 && mark.get<int64_t>() < 65536 ? mark.get<int64_t>() : -1;
}

}  // namespace

tl::expected<DataDescription, std::string> describe_data_file(const std::string& path) {
  const auto file = TokenFile::open(path);
  if (!file) return tl::unexpected(file.error());
  const std::span<const uint16_t> tokens = (*file)->tokens();
  std::vector<bool> seen(65536);
  for (const uint16_t id : tokens) seen[id] = true;

  DataDescription description;
  description.path = path;
  description.format = (*file)->format();
  description.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  description.tokens = static_cast<int64_t>(tokens.size());
  description.distinct_ids = std::ranges::count(seen, true);
  description.largest_id = seen.rend() - std::find(seen.rbegin(), seen.rend(), true) - 1;
  description.digest = (*file)->digest();
  description.info = read_info(std::filesystem::path(path).parent_path() / "info.json");
  description.mark = mark_of(description.info);
  if (description.mark >= 0) description.marks = std::ranges::count(tokens, static_cast<uint16_t>(description.mark));
  description.listed = is_listed(description.info, description.digest);
  return description;
}

}  // namespace holdfast::model
