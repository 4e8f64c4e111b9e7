#include "worker/data_sets/fetcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/client/retry.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/sha256.h"
#include "worker/data_sets/token_chunks.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using rendezvous::HttpClient;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kThreads = 6;
constexpr milliseconds kAnnounceEvery{1000}, kAnnounceSoon{250}, kAnnounceSoonest{50}, kLookAgain{20}, kChunkPatience{60'000};
constexpr int kDamageTold = 10;         // times, of one data set
constexpr int64_t kAskedOfService = 8;  // chunks that it has given and that have not come: more are asked for below half

double mib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

Fetcher::Fetcher(ServiceLink& link, std::string name, std::shared_ptr<CachedSet> set, ChunkServer* server, OnEvent on_event)
    : link_(link),
      name_(std::move(name)),
      digest_(set->manifest().digest()),
      set_(std::move(set)),
      server_(server),
      on_event_(std::move(on_event)),
      sources_(set_->chunks(), std::hash<std::string>()(link.options().incarnation)),
      completed_(set_->is_whole()) {
  threads_.emplace_back([this] { announce(); });
  if (completed_) return;
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { fetch(); });
}

Fetcher::~Fetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  if (server_ != nullptr) server_->stop_sharing(digest_);
}

void Fetcher::need(const std::vector<int64_t>& chunks) {
  const std::lock_guard lock(mutex_);
  sources_.need_first(chunks);
  announce_now_ = true;
  changed_.notify_all();
}

// Another process may bring a chunk, which wakes nobody here: flags are looked at again and again.
Fetcher::Waited Fetcher::wait_for(int64_t first, int64_t last, const std::atomic<bool>* stop) {
  std::vector<int64_t> missing;
  for (int64_t chunk = first; chunk < last; ++chunk) {
    if (!set_->has(chunk)) missing.push_back(chunk);
  }
  if (!missing.empty()) need(missing);
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) return Waited::kFailed;
  while (!missing.empty()) {
    if (stop != nullptr && *stop) return Waited::kStopped;
    if (!failure_.empty()) return Waited::kFailed;
    changed_.wait_for(lock, kLookAgain);
    std::erase_if(missing, [this](int64_t chunk) { return set_->has(chunk); });
  }
  return Waited::kHere;
}

bool Fetcher::is_complete() const {
  const std::lock_guard lock(mutex_);
  return completed_ && failure_.empty();
}

std::string Fetcher::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Fetcher::announce() {
  name_thread("data set");
  const auto client = link_.make_client();
  client->set_stop(&stopping_);
  while (!stopping_) {
    const bool was_given = announce_once(*client);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, was_given ? kAnnounceSoonest : kAnnounceSoon, [this] { return stopping_.load(); });
    const auto due = [this] {
      const bool wants_more = !completed_ && sources_.given_by_service(set_->have()) < kAskedOfService / 2;
      return stopping_ || announce_now_ || (wants_more && !set_->is_whole());
    };
    changed_.wait_for(lock, kAnnounceEvery, due);
    announce_now_ = false;
  }
}

// Returns whether the service gave chunks: then there may be more.
bool Fetcher::announce_once(HttpClient& client) {
  rendezvous::HoldersRequest request{.worker = link_.options().worker,
                                     .incarnation = link_.options().incarnation,
                                     .address = server_ == nullptr ? "" : server_->address(),
                                     .have = rendezvous::chunk_bits(set_->have()),
                                     .first = {},
                                     .room = 0,
                                     .pin = server_ == nullptr ? "" : server_->pin()};
  {
    const std::lock_guard lock(mutex_);
    const std::vector<bool> have = set_->have();
    request.first = sources_.needed_first(have);
    if (may_fetch()) request.room = std::max<int64_t>(0, kAskedOfService - sources_.given_by_service(have));
  }
  const auto reply = link_.attempt(client, "POST", "/v1/data/sets/" + digest_ + "/holders", to_json(request).dump(),
                                   std::chrono::seconds(5), false);
  const std::lock_guard lock(mutex_);
  if (!reply) {
    const bool is_absent = !reply.error().unreachable && reply.error().problem.status == 404;
    if (is_absent && !sources_.has_workers() && !set_->is_whole() && failure_.empty())
      failure_ = "data set " + name_ + " is not at the service any more, and no other worker has it: push it again";
    changed_.notify_all();
    return false;
  }
  bool was_given = false;
  try {
    const auto parsed = rendezvous::holders_reply_from_json(nlohmann::json::parse(reply->body));
    sources_.take(parsed);
    if (server_ != nullptr && parsed.key != key_) server_->share(set_, parsed.key);
    key_ = parsed.key;
    was_given = !parsed.take.empty();
  } catch (const std::exception& odd) {
    spdlog::warn("data set {}: the service's answer cannot be read: {}", name_, odd.what());
  }
  changed_.notify_all();
  return was_given;
}

// With the lock held. Only one process of those that share the cache fetches; its lock ends with it.
bool Fetcher::may_fetch() {
  if (completed_) return false;
  if (fetching_.is_open()) return true;
  OpenFile file(::open(set_->path_of("fetching").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open() || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  fetching_ = std::move(file);
  return true;
}

void Fetcher::fetch() {
  name_thread("data set");
  std::map<std::string, std::unique_ptr<HttpClient>> clients;  // by address
  while (!stopping_) {
    std::optional<ChunkSources::Task> task;
    std::string key;
    {
      std::unique_lock lock(mutex_);
      if (set_->is_whole()) break;
      const std::vector<bool> have = set_->have();
      if (failure_.empty() && may_fetch()) task = sources_.next(have, steady_clock::now());
      if (!task) {
        changed_.wait_for(lock, kLookAgain);
        continue;
      }
      key = key_;
    }
    auto& client = clients[task->address];
    if (!client) {
      client = task->address.empty() ? link_.make_client() : std::make_unique<HttpClient>("https://" + task->address, "");
      client->set_stop(&stopping_);
    }
    if (!task->address.empty()) {
      client->set_header(kDataKeyHeader, key);
      client->trust_only(task->pin);
    }
    carry_out(*task, *client);
  }
  complete();
}

void Fetcher::carry_out(const ChunkSources::Task& task, HttpClient& client) {
  const bool asks = task.chunk < 0;
  const std::string path = task.address.empty()
                               ? "/v1/data/chunks/" + *rendezvous::chunk_at(set_->manifest(), task.chunk).name
                               : "/v1/data/sets/" + digest_ + (asks ? "/have" : fmt::format("/chunks/{}", task.chunk));
  const auto is_cut = [this] { return link_.options().is_cut && link_.options().is_cut(); };  // in a drill
  const auto reply = is_cut() ? tl::unexpected(rendezvous::HttpFailure{})
                              : client.request("GET", path, {}, "application/json", kChunkPatience);
  if (reply && !asks && !is_cut()) return take_chunk(task, reply->body);
  const auto has = reply ? rendezvous::chunks_of_bits(reply->body, set_->chunks()) : tl::unexpected<std::string>("no answer");
  const std::lock_guard lock(mutex_);
  if (has) {
    sources_.learned(task, *has);
  } else {
    sources_.failed(task, steady_clock::now());
  }
  changed_.notify_all();
}

void Fetcher::take_chunk(const ChunkSources::Task& task, const std::string& body) {
  const auto bytes = std::as_bytes(std::span(body));
  const rendezvous::ChunkPlace place = rendezvous::chunk_at(set_->manifest(), task.chunk);
  if (static_cast<int64_t>(bytes.size()) != place.bytes || rendezvous::sha256_hex(bytes) != *place.name) {
    {
      const std::lock_guard lock(mutex_);
      sources_.failed(task, steady_clock::now());
    }
    if (damaged_++ < kDamageTold)
      on_event_("data_damaged", fmt::format("chunk {} of data set {} came damaged from {}: it is fetched again", task.chunk,
                                            name_, task.address.empty() ? "the service" : task.worker));
    return;
  }
  if (const std::string wrong = complaint_of_ids(place, bytes); !wrong.empty()) return fail("data set " + name_ + ": " + wrong);
  if (const auto put = set_->put(task.chunk, bytes); !put) return fail("data set " + name_ + ": " + put.error());
  const std::lock_guard lock(mutex_);
  sources_.got(task);
  changed_.notify_all();
}

void Fetcher::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

// Once, by the first thread that finds it whole; the process that fetched looks at its tokens and makes it durable.
void Fetcher::complete() {
  std::string summary;
  {
    const std::lock_guard lock(mutex_);
    if (completing_ || !set_->is_whole()) return;
    completing_ = true;
    if (!fetching_.is_open()) {
      completed_ = announce_now_ = true;
      return;
    }
    const double seconds = std::chrono::duration<double>(steady_clock::now() - begun_).count();
    summary = fmt::format("data set {} ({:.0f} MiB) is here after {:.1f} s: {} of its chunks from the service, {} from {}",
                          name_, mib(set_->manifest().bytes()), seconds, sources_.from_service(), sources_.from_workers(),
                          rendezvous::counted(static_cast<int64_t>(sources_.workers_that_gave()), "worker"));
  }
  const std::string wrong = complaint_of_digests(set_->manifest(), set_->folder());
  if (!wrong.empty()) return fail("data set " + name_ + ": " + wrong + ": push it again");
  if (const auto done = set_->finish(); !done) spdlog::warn("data set {}: {}", name_, done.error());
  on_event_("data_fetched", summary);
  const std::lock_guard lock(mutex_);
  completed_ = announce_now_ = true;
  fetching_ = OpenFile();
  changed_.notify_all();
}

}  // namespace holdfast::worker
