#include "worker/data_sets/data_sets.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/data/token_file.h"
#include "rendezvous/client/retry.h"
#include "rendezvous/text/plural.h"
#include "worker/data_sets/token_chunks.h"

namespace holdfast::worker {
namespace {

using rendezvous::DataManifest;
using rendezvous::DataSource;
using rendezvous::kChunkBytes;

constexpr auto kManifestPatience = std::chrono::seconds(60);

class SetFileArrival final : public FileArrival {
 public:
  // The ids begin at `first_byte` of the file, whose first chunk has the number `first_chunk`.
  SetFileArrival(std::shared_ptr<Fetcher> fetcher, int64_t first_chunk, int64_t first_byte, const std::atomic<bool>* stop)
      : fetcher_(std::move(fetcher)), first_chunk_(first_chunk), first_byte_(first_byte), stop_(stop) {}

  void expect(std::span<const TokenRange> ranges) override {
    if (here_) return;
    std::vector<int64_t> chunks;
    for (const TokenRange& range : ranges) {
      const auto [first, last] = chunks_of(range);
      for (int64_t chunk = first; chunk < last && chunks.size() < rendezvous::kFirstMax; ++chunk) {
        if (!fetcher_->set().has(chunk) && std::ranges::find(chunks, chunk) == chunks.end()) chunks.push_back(chunk);
      }
    }
    if (!chunks.empty()) fetcher_->need(chunks);
  }

  tl::expected<bool, std::string> bring(TokenRange range) override {
    if (here_) return true;
    const auto [first, last] = chunks_of(range);
    const auto waited = fetcher_->wait_for(first, last, stop_);
    if (waited == Fetcher::Waited::kFailed) return tl::unexpected(fetcher_->failure());
    if (waited == Fetcher::Waited::kStopped) return false;
    here_ = fetcher_->is_complete();
    return true;
  }

 private:
  std::pair<int64_t, int64_t> chunks_of(TokenRange range) const {
    const int64_t begin = first_byte_ + range.first * 2, end = begin + std::max<int64_t>(range.count, 1) * 2;
    return {first_chunk_ + begin / kChunkBytes, first_chunk_ + (end + kChunkBytes - 1) / kChunkBytes};
  }

  const std::shared_ptr<Fetcher> fetcher_;
  const int64_t first_chunk_, first_byte_;
  const std::atomic<bool>* const stop_;
  bool here_ = false;  // all of it, so that nothing needs to be looked up any more
};

std::string list_of(const DataManifest& manifest) {
  std::string names;
  for (const auto& file : manifest.files) names += (names.empty() ? "" : ", ") + file.name;
  return names;
}

}  // namespace

DataSets::DataSets(ServiceLink& link, Outbox& outbox, DataSetOptions options)
    : link_(link), outbox_(outbox), options_(std::move(options)), cache_(options_.cache_folder, options_.cache_bytes) {}

// Begun with the first data set: workers whose jobs name files open no port more.
ChunkServer* DataSets::server() {
  if (server_ || options_.host.empty()) return server_.get();
  auto server = ChunkServer::start(options_.host, options_.ports);
  if (server) {
    server_ = std::move(*server);
  } else {
    spdlog::warn("{}", server.error());
    options_.host.clear();
  }
  return server_.get();
}

void DataSets::begin(const std::string& job, const std::vector<DataSource>& sources) {
  job_ = std::make_shared<const std::string>(job);
  const auto is_named = [&](const std::string& digest) {
    return std::ranges::any_of(sources, [&](const DataSource& source) { return source.digest == digest; });
  };
  std::erase_if(fetchers_, [&](const auto& held) { return !is_named(held.first) || !held.second->failure().empty(); });
}

tl::expected<DataManifest, std::string> DataSets::manifest_of(const DataSource& source, const std::atomic<bool>* stop) {
  if (auto here = cache_.manifest_of(source.digest)) return here;
  const auto client = link_.make_client();
  const auto deadline = std::chrono::steady_clock::now() + kManifestPatience;
  rendezvous::BackOff back_off(std::chrono::milliseconds(100), std::chrono::seconds(2));
  while (true) {
    const auto reply = link_.attempt(*client, "GET", "/v1/data/sets/" + source.digest, "", std::chrono::seconds(20), false);
    if (reply) {
      const auto json = nlohmann::json::parse(reply->body, nullptr, false);
      if (json.is_discarded() || !json.contains("manifest"))
        return tl::unexpected("the service's answer about data set " + source.set + " cannot be read");
      auto manifest = rendezvous::data_manifest_from_json(json["manifest"]);
      if (manifest && manifest->digest() != source.digest)
        return tl::unexpected("the service's manifest of data set " + source.set + " is another than the job names");
      return manifest;
    }
    // A worker that may be stopped waits for a service that is away: a refusal is for good.
    const bool is_over = stop != nullptr ? bool{*stop} : std::chrono::steady_clock::now() > deadline;
    if (is_over || !is_worth_repeating(reply.error())) return tl::unexpected(reply.error().message());
    std::this_thread::sleep_for(back_off.next());
  }
}

tl::expected<std::shared_ptr<Fetcher>, std::string> DataSets::fetcher_of(const DataSource& source,
                                                                         const std::atomic<bool>* stop) {
  if (const auto held = fetchers_.find(source.digest); held != fetchers_.end()) return held->second;
  auto manifest = manifest_of(source, stop);
  if (!manifest) return tl::unexpected(manifest.error());
  auto set = cache_.open(*manifest);
  if (!set) return tl::unexpected(set.error());
  const auto tell = [this, job = job_](const std::string& kind, const std::string& message) {
    spdlog::info("{}", message);
    outbox_.event(*job, kind, message);
  };
  // Damage on the disk shows in the digests, and then each chunk is looked at.
  const std::string complaint = (*set)->is_whole() ? complaint_of_digests(*manifest, (*set)->folder()) : "";
  if (!complaint.empty()) {
    const int64_t wrong = (*set)->verify();
    if (wrong == 0) return tl::unexpected(complaint + ": push it again");
    tell("data_damaged", fmt::format("{} of data set {} were damaged in {}: they are fetched again",
                                     rendezvous::counted(wrong, "chunk"), source.set, (*set)->folder()));
  }
  auto fetcher = std::make_shared<Fetcher>(link_, source.set, std::move(*set), server(), tell);
  fetchers_[source.digest] = fetcher;
  return fetcher;
}

tl::expected<DataSets::OpenedFile, std::string> DataSets::open(const DataSource& source, const std::atomic<bool>* stop) {
  if (source.digest.empty())
    return tl::unexpected("data:" + source.set + ": the service did not say which content it means: submit the job again");
  auto fetcher = fetcher_of(source, stop);
  if (!fetcher) return tl::unexpected("data:" + source.set + ": " + fetcher.error());
  const DataManifest& manifest = (*fetcher)->set().manifest();
  const rendezvous::DataSetFile* file = manifest.find(source.file);
  if (file == nullptr || file->tokens == 0) {
    return tl::unexpected(fmt::format("data:{}/{}: {}: it has {}", source.set, source.file,
                                      file == nullptr ? "the data set has no such file" : "is no token file",
                                      list_of(manifest)));
  }
  const int64_t first_chunk = first_chunk_of(manifest, *file);
  const auto waited = (*fetcher)->wait_for(first_chunk, first_chunk + 1, stop);
  if (waited == Fetcher::Waited::kFailed) return tl::unexpected((*fetcher)->failure());
  if (waited == Fetcher::Waited::kStopped) return tl::unexpected("data:" + source.set + ": the wait for it was ended");
  return OpenedFile{.path = (*fetcher)->set().path_of(file->name),
                    .tokens = file->tokens,
                    .largest_id = file->largest_id,
                    .digest = file->tokens_digest,
                    .arrival = std::make_shared<SetFileArrival>(*fetcher, first_chunk, file->first_id_byte(), stop)};
}

}  // namespace holdfast::worker
