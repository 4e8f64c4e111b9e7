#include "rendezvous/api/data_sets/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "rendezvous/api/data_sets/views.h"
#include "rendezvous/data_sets/pinned.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using storage::Error;

constexpr size_t kKeyBytes = 16;
constexpr size_t kMissingNamed = 10;

// False: the path has no name that a data set may have, and the call is answered.
bool names_set(const Call& call) {
  const std::string& name = call.arguments[0];
  if (is_data_name(name)) return true;
  call.answer(bad_field("name", fmt::format("\"{}\" is no name of a data set: 1 to {} letters, digits and ._- , not beginning "
                                            "with a dot",
                                            name.substr(0, 80), kDataNameBytesMax)));
  return false;
}

// The manifest in a body, or what is wrong with it (kRefused). A large one takes a second to read.
storage::Result<std::shared_ptr<const DataManifest>> read_manifest(const std::string& body) {
  const ParsedJson parsed = parse_json(body);
  if (parsed.too_deep || parsed.json.is_discarded())
    return tl::unexpected(Error{Error::Code::kRefused, "the body is not JSON: expected a data set's manifest"});
  auto manifest = data_manifest_from_json(parsed.json);
  if (!manifest) return tl::unexpected(Error{Error::Code::kRefused, manifest.error()});
  return std::make_shared<const DataManifest>(*std::move(manifest));
}

Problem chunks_missing(const std::vector<std::string>& missing) {
  std::string named;
  for (size_t i = 0; i < std::min(missing.size(), kMissingNamed); ++i) named += (i == 0 ? "" : ", ") + missing[i];
  const bool more = missing.size() > kMissingNamed;
  return problem(
      409, "chunks_missing",
      fmt::format("{} of the data set {} not here: {}{}; send them (PUT /v1/data/chunks/SHA256), then the manifest again",
                  counted(static_cast<int64_t>(missing.size()), "chunk"), missing.size() == 1 ? "is" : "are", named,
                  more ? " and more" : ""));
}

Problem no_such_set(const Catalogue& catalogue, const std::string& name_or_digest) {
  return problem(404, "not_found", no_such_data_set(catalogue, name_or_digest.substr(0, 80)));
}

std::set<std::string> at(const std::map<std::string, std::set<std::string>>& jobs, const std::string& digest) {
  const auto found = jobs.find(digest);
  return found == jobs.end() ? std::set<std::string>{} : found->second;
}

}  // namespace

void DataSetsApi::put_set(Call& call) {
  if (!names_set(call)) return;
  const auto body = std::make_shared<const std::string>(std::move(call.request.body));
  const int64_t now_ms = keeper_.turn().clock.wall_ms();
  keeper_.on_books<KeptDataSet>(
      [body, now_ms](DataSetFiles&) -> storage::Result<KeptDataSet> {
        auto manifest = read_manifest(*body);
        if (!manifest) return tl::unexpected(manifest.error());
        return KeptDataSet{(*manifest)->digest(), *manifest, random_hex(kKeyBytes), now_ms};
      },
      [this, call](const storage::Result<KeptDataSet>& pushed) {
        if (pushed) return keep(call, call.arguments[0], *pushed);
        const Error& why = pushed.error();
        call.answer(why.code == Error::Code::kRefused ? bad_field("manifest", why.message, "invalid_manifest")
                                                      : storage_problem(why));
      });
}

void DataSetsApi::keep(const Call& call, const std::string& name, const KeptDataSet& pushed) {
  Catalogue& catalogue = keeper_.catalogue();
  if (const auto missing = catalogue.missing_chunks(*pushed.manifest); !missing.empty())
    return call.answer(chunks_missing(missing));
  const DataSetName* before = catalogue.find_name(name);
  if (before != nullptr && before->digest == pushed.digest) {
    return call.answer(json_answer(200, show_data_set(*catalogue.find_digest(pushed.digest), name, before->named_ms,
                                                      at(keeper_.jobs_by_digest(), pushed.digest))));
  }
  if (before == nullptr && catalogue.is_full()) {
    return call.answer(
        problem(409, "too_many",
                fmt::format("there are {} data sets, and more are not taken: remove some with `holdfast data rm`",
                            Catalogue::kSetsMax)));
  }
  const KeptDataSet set = catalogue.begin_keeping(pushed);
  const DataSetName meaning{name, set.digest, keeper_.turn().clock.wall_ms()};
  keeper_.on_books<bool>(
      [set, meaning](DataSetFiles& files) -> storage::Result<bool> {
        if (const auto put = files.put_set(set); !put) return tl::unexpected(put.error());
        if (const auto put = files.put_name(meaning); !put) return tl::unexpected(put.error());
        return true;
      },
      [this, call, set, meaning](const storage::Result<bool>& written) { kept(call, set, meaning, written); });
}

void DataSetsApi::kept(const Call& call, const KeptDataSet& set, const DataSetName& name,
                       const storage::Result<bool>& written) {
  Catalogue& catalogue = keeper_.catalogue();
  const bool replaces = catalogue.find_name(name.name) != nullptr;
  catalogue.keep_ended(set.digest, written ? name : DataSetName{}, keeper_.turn().clock.wall_ms());
  if (!written) return call.answer(storage_problem(written.error()));
  const ActingFor acting(keeper_.turn().state, call);
  keeper_.turn().state.journal().record(
      {"data_set_pushed",
       fmt::format("data set {}: {} in {}, digest {}{}", name.name,
                   counted(static_cast<int64_t>(set.manifest->files.size()), "file"), counted(set.manifest->chunks(), "chunk"),
                   set.digest, replaces ? "; jobs that began with what had the name before keep that" : "")});
  for (const std::string& job : at(keeper_.jobs_by_digest(), set.digest))
    keeper_.turn().state.restored_database().data_is_back(job);
  keeper_.drop_unused();
  HttpResponse response =
      json_answer(201, show_data_set(set, name.name, name.named_ms, at(keeper_.jobs_by_digest(), set.digest)));
  response.headers["Location"] = "/v1/data/sets/" + name.name;
  call.answer(std::move(response));
}

void DataSetsApi::get_sets(Call& call) {
  const auto page = page_of(call.request);
  if (!page) return call.answer(page.error());
  const Catalogue& catalogue = keeper_.catalogue();
  const auto jobs = keeper_.jobs_by_digest();
  std::vector<DataSetName> rows;
  for (const auto& [name, meaning] : catalogue.names()) rows.push_back(meaning);
  for (const KeptDataSet* set : catalogue.unnamed()) rows.push_back({"", set->digest, set->pushed_ms});
  Json list = Json::array();
  const auto begin = static_cast<size_t>(page->after);
  for (size_t i = begin; i < rows.size() && i < begin + static_cast<size_t>(page->limit); ++i) {
    if (const KeptDataSet* set = catalogue.find_digest(rows[i].digest))
      list.push_back(show_data_set(*set, rows[i].name, rows[i].named_ms, at(jobs, set->digest)));
  }
  const int64_t next = begin + list.size() < rows.size() ? page->after + page->limit : 0;
  const int64_t limit = keeper_.limit_bytes();
  call.answer(json_answer(200, {{"data_sets", std::move(list)},
                                {"used_bytes", catalogue.chunks().bytes()},
                                {"unneeded_bytes", catalogue.chunks().unneeded_bytes()},
                                {"limit_bytes", limit == 0 ? Json(nullptr) : Json(limit)},
                                {"next_page_token", next_page_token(next)}}));
}

// The manifest of a large data set takes a while to write down.
void DataSetsApi::get_set(Call& call) {
  const std::string asked = call.arguments[0];
  const Catalogue& catalogue = keeper_.catalogue();
  const KeptDataSet* set = catalogue.find(asked);
  if (set == nullptr) return call.answer(no_such_set(catalogue, asked));
  const bool by_name = catalogue.find_name(asked) != nullptr;
  keeper_.on_books<HttpResponse>(
      [set = *set, name = by_name ? Json(asked) : Json(nullptr)](DataSetFiles&) -> storage::Result<HttpResponse> {
        return json_answer(200, {{"name", name}, {"digest", set.digest}, {"manifest", to_json(*set.manifest)}});
      },
      [call](storage::Result<HttpResponse> answer) {
        call.answer(answer ? *std::move(answer) : problem_answer(storage_problem(answer.error())));
      });
}

void DataSetsApi::delete_set(Call& call) {
  if (!names_set(call)) return;
  const std::string name = call.arguments[0];
  const Catalogue& catalogue = keeper_.catalogue();
  const DataSetName* meaning = catalogue.find_name(name);
  if (meaning == nullptr) return call.answer(no_such_set(catalogue, name));
  const auto users = at(keeper_.jobs_by_digest(), meaning->digest);
  if (!users.empty()) {
    return call.answer(problem(409, "in_use",
                               fmt::format("{} {} not over and {} the data set {}: stop {}, or wait until then",
                                           in_words({users.begin(), users.end()}), users.size() == 1 ? "is" : "are",
                                           users.size() == 1 ? "uses" : "use", name, users.size() == 1 ? "it" : "them")));
  }
  keeper_.on_books<bool>(
      [name](DataSetFiles& files) -> storage::Result<bool> {
        if (const auto removed = files.remove_name(name); !removed) return tl::unexpected(removed.error());
        return true;
      },
      [this, call, name](const storage::Result<bool>& removed) {
        if (!removed) return call.answer(storage_problem(removed.error()));
        keeper_.catalogue().forget_name(name);
        const ActingFor acting(keeper_.turn().state, call);
        keeper_.turn().state.journal().record({"data_set_removed", fmt::format("data set {} is removed", name)});
        keeper_.drop_unused();
        keeper_.drop_stale();
        call.answer(empty_answer());
      });
}

}  // namespace holdfast::rendezvous
