#include "rendezvous/standby/data_set_pull.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/protocol/data_set.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/random_hex.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;
using Failure = tl::unexpected<std::string>;
using std::chrono::steady_clock;

constexpr size_t kKeyBytes = 16;

int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

DataSetPull::DataSetPull(DataSetPullOptions options) : options_(std::move(options)), files_(options_.data_dir) {
  const FoundDataSets found = files_.load(wall_ms());
  for (const KeptDataSet& set : found.sets) sets_.insert(set.digest);
  for (const DataSetName& name : found.names) names_[name.name] = name.digest;
  for (const FoundDataSets::FoundChunk& chunk : found.chunks) chunks_.insert(chunk.name);
}

void DataSetPull::pace(size_t bytes) {
  pulled_bytes_ += static_cast<int64_t>(bytes);
  if (options_.bytes_per_s <= 0) return;
  const auto until = steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(
                                               static_cast<double>(bytes) / options_.bytes_per_s));
  constexpr std::chrono::milliseconds kPiece{100};  // it looks at `stop` this often
  while (steady_clock::now() < until && !*options_.stop)
    std::this_thread::sleep_for(std::min<steady_clock::duration>(until - steady_clock::now(), kPiece));
}

tl::expected<std::vector<DataSetPull::Listed>, std::string> DataSetPull::list(HttpClient& client) {
  std::vector<Listed> listed;
  for (std::string page;;) {
    const auto reply = client.request("GET", "/v1/data/sets?limit=1000" + (page.empty() ? "" : "&page_token=" + page));
    if (!reply) return Failure(reply.error().message());
    const Json json = parse_json(reply->body).json;
    if (!json.is_object() || !json.contains("data_sets"))
      return Failure(client.base_url() + " did not answer with a list of data sets");
    for (const Json& set : json["data_sets"])
      listed.push_back({set["name"].is_string() ? set["name"].get<std::string>() : "", set.value("digest", "")});
    const Json next = json.value("next_page_token", Json());
    if (!next.is_string()) return listed;
    page = next;
  }
}

tl::expected<void, DataSetPull::Trouble> DataSetPull::pull_chunk(HttpClient& client, const std::string& name) {
  const auto reply = client.request("GET", "/v1/data/chunks/" + name, {}, "application/json", std::chrono::seconds(60));
  if (!reply) return tl::unexpected(Trouble{reply.error().message()});
  const auto bytes = std::as_bytes(std::span(reply->body));
  if (const std::string found = sha256_hex(bytes); found != name)
    return tl::unexpected(Trouble{fmt::format("{} sent {} bytes with the SHA-256 {} for the data chunk {}", client.base_url(),
                                              bytes.size(), found, name)});
  if (const auto put = files_.put_chunk(name, bytes); !put) return tl::unexpected(Trouble{put.error().message, true});
  chunks_.insert(name);
  pace(bytes.size());
  return {};
}

tl::expected<DataSetPull::Went, DataSetPull::Trouble> DataSetPull::pull_set(HttpClient& client, const std::string& digest,
                                                                            const std::function<bool()>& may_go_on) {
  const auto reply = client.request("GET", "/v1/data/sets/" + digest, {}, "application/json", std::chrono::seconds(60));
  if (!reply) return tl::unexpected(Trouble{reply.error().message()});
  const Json json = parse_json(reply->body).json;
  auto manifest = data_manifest_from_json(json.is_object() ? json.value("manifest", Json()) : Json());
  if (!manifest) return tl::unexpected(Trouble{fmt::format("the manifest of data set {}: {}", digest, manifest.error())});
  if (manifest->digest() != digest)
    return tl::unexpected(Trouble{fmt::format("the manifest of data set {} has the digest {}", digest, manifest->digest())});
  for (int64_t chunk = 0; chunk < manifest->chunks(); ++chunk) {
    const std::string& name = *chunk_at(*manifest, chunk).name;
    if (chunks_.contains(name)) continue;
    if (*options_.stop || !may_go_on()) return Went::kBrokenOff;
    if (auto pulled = pull_chunk(client, name); !pulled) return tl::unexpected(std::move(pulled.error()));
  }
  const KeptDataSet set{digest, std::make_shared<const DataManifest>(*std::move(manifest)), random_hex(kKeyBytes), wall_ms()};
  if (const auto put = files_.put_set(set); !put) return tl::unexpected(Trouble{put.error().message, true});
  sets_.insert(digest);
  spdlog::info("the data set {} was pulled from {}: {} chunks", digest, client.base_url(), set.manifest->chunks());
  return Went::kWhole;
}

tl::expected<void, std::string> DataSetPull::look(const std::string& leader, const std::function<bool()>& may_go_on) {
  HttpClient client(leader, options_.token);
  client.set_stop(options_.stop);
  const auto listed = list(client);
  if (!listed) return Failure(listed.error());
  std::string problem;
  for (const Listed& set : *listed) {
    if (!is_sha256_hex(set.digest)) continue;
    if (!sets_.contains(set.digest)) {
      const auto pulled = pull_set(client, set.digest, may_go_on);
      if (!pulled) {
        problem = pulled.error().what;
        if (pulled.error().of_all) break;
        continue;  // another may be whole there
      }
      if (*pulled == Went::kBrokenOff) return {};
    }
    if (!is_data_name(set.name)) continue;
    const auto known = names_.find(set.name);
    if (known != names_.end() && known->second == set.digest) continue;
    if (const auto put = files_.put_name({set.name, set.digest, wall_ms()}); !put) return Failure(put.error().message);
    names_[set.name] = set.digest;
  }
  if (!problem.empty()) return Failure(problem);
  return {};
}

}  // namespace holdfast::rendezvous
