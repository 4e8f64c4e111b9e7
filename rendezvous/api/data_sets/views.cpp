#include "rendezvous/api/data_sets/views.h"

#include "rendezvous/text/time_text.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

Json show_file(const DataSetFile& file) {
  const bool has_tokens = !file.tokens_digest.empty();
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"tokens", has_tokens ? Json(file.tokens) : Json(nullptr)},
          {"largest_id", has_tokens ? Json(file.largest_id) : Json(nullptr)},
          {"tokens_digest", has_tokens ? Json(file.tokens_digest) : Json(nullptr)}};
}

}  // namespace

Json show_data_set(const KeptDataSet& set, const std::string& name, int64_t named_ms, const std::set<std::string>& jobs) {
  Json files = Json::array();
  int64_t tokens = 0;
  for (const DataSetFile& file : set.manifest->files) {
    files.push_back(show_file(file));
    tokens += file.tokens;
  }
  return {{"name", name.empty() ? Json(nullptr) : Json(name)},
          {"digest", set.digest},
          {"bytes", set.manifest->bytes()},
          {"chunks", set.manifest->chunks()},
          {"tokens", tokens},
          {"files", std::move(files)},
          {"pushed_at", time_text(named_ms)},
          {"jobs", jobs}};
}

}  // namespace holdfast::rendezvous
