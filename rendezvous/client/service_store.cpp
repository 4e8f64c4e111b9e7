#include "rendezvous/client/service_store.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "rendezvous/client/http_client.h"
#include "rendezvous/client/retry.h"
#include "storage/checksum.h"
#include "storage/failure.h"

namespace holdfast::rendezvous {
namespace {

using storage::Bytes;
using storage::checksum_hex;
using storage::Error;
using storage::fail;
using storage::insist_on_key;
using storage::kObjectBytesMax;
using storage::ObjectStore;
using storage::Result;
using storage::valid_key;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBackOffMax{5000};
constexpr milliseconds kPiece{100};           // a pause looks at `stop` this often
constexpr int64_t kSlowestBytesPerMs = 1000;  // 1 MB/s: at this speed a put's bytes lengthen its deadline

// The writer of a checkpoint is told at once that there is no space; it does not wait until somebody makes room.
bool may_pass(const HttpFailure& failure) {
  return failure.problem.status != 507 && is_worth_repeating(failure);
}

Error::Code code_of(const HttpFailure& failure) {
  if (may_pass(failure)) return Error::Code::kUnavailable;
  switch (failure.problem.status) {
    case 404:
      return Error::Code::kNotFound;
    case 422:
      return failure.problem.code == "corrupt" ? Error::Code::kCorrupt : Error::Code::kRefused;
    case 507:
      return Error::Code::kNoSpace;
    default:
      return Error::Code::kRefused;
  }
}

// Connections: one for each call under way, kept for later calls.
class ClientPool {
 public:
  ClientPool(std::string url, std::string token, std::optional<WorkerIdentity> identity)
      : url_(std::move(url)), token_(std::move(token)), identity_(std::move(identity)) {}

  class Lease {
   public:
    Lease(ClientPool& pool, std::unique_ptr<HttpClient> client) : pool_(pool), client_(std::move(client)) {}
    ~Lease() { pool_.give_back(std::move(client_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    HttpClient* operator->() { return client_.get(); }

   private:
    ClientPool& pool_;
    std::unique_ptr<HttpClient> client_;
  };

  Lease take() {
    std::unique_ptr<HttpClient> client;
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        client = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!client) client = connect();
    return {*this, std::move(client)};
  }

 private:
  std::unique_ptr<HttpClient> connect() const {
    auto client = std::make_unique<HttpClient>(url_, token_);
    if (identity_) {
      client->set_header("Holdfast-Worker", identity_->worker);
      client->set_header("Holdfast-Incarnation", identity_->incarnation);
    }
    return client;
  }
  void give_back(std::unique_ptr<HttpClient> client) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(client));
  }
  const std::string url_, token_;
  const std::optional<WorkerIdentity> identity_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<HttpClient>> idle_;
};

class ServiceStore : public ObjectStore {
 public:
  ServiceStore(const std::string& url, std::string job, const std::string& token, const ServiceStoreOptions& options)
      : url_(url), job_(std::move(job)), options_(options), clients_(url, token, options.identity) {}

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override;
  Result<Bytes> get(const std::string& key) override;
  Result<std::vector<std::string>> list(const std::string& prefix) override;
  Result<void> remove(const std::string& key) override;
  // The service cleans its own folder.
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string>) override {
    return std::vector<std::string>{};
  }
  std::string describe() const override { return url_ + " (job " + job_ + ")"; }

 private:
  std::string objects_path() const { return "/v1/jobs/" + job_ + "/objects"; }
  // `what` begins the message of an error: "cannot write step-…".
  Result<HttpReply> call(const std::string& what, std::string_view method, const std::string& path, std::string_view body = {});

  const std::string url_, job_;
  const ServiceStoreOptions options_;
  ClientPool clients_;
};

Result<HttpReply> ServiceStore::call(const std::string& what, std::string_view method, const std::string& path,
                                     std::string_view body) {
  const std::atomic<bool>* const stop = method == "GET" ? options_.stop : nullptr;
  const auto stopped = [stop] { return stop != nullptr && *stop; };
  const milliseconds allowed = options_.deadline + milliseconds(static_cast<int64_t>(body.size()) / kSlowestBytesPerMs);
  const Clock::time_point deadline = Clock::now() + allowed;
  BackOff back_off(options_.first_back_off, kBackOffMax);
  ClientPool::Lease client = clients_.take();
  client->set_stop(stop);
  // The service checks by it that the bytes arrived unaltered; TCP's checksum of 16 bits does not find everything.
  client->set_header("Holdfast-Checksum", checksum_hex(std::as_bytes(std::span(body))));
  for (int attempt = 1;; ++attempt) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    auto reply = client->request(method, path, body, "application/octet-stream", std::max(left, milliseconds(1)));
    if (reply) return std::move(*reply);
    const milliseconds pause = back_off.next();
    if (!may_pass(reply.error()) || stopped() || Clock::now() + pause >= deadline) {
      std::string tries;
      if (attempt > 1)
        tries = fmt::format(" ({} attempts within {:g} s)", attempt, static_cast<double>(allowed.count()) / 1000);
      return fail(code_of(reply.error()), "{} in {}: {}{}", what, describe(), reply.error().message(), tries);
    }
    for (const auto until = Clock::now() + pause; Clock::now() < until && !stopped();)
      std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), kPiece));
  }
}

Result<void> ServiceStore::put(const std::string& key, std::span<const std::byte> bytes) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  if (bytes.size() > static_cast<size_t>(kObjectBytesMax)) {
    return fail(Error::Code::kRefused, "cannot write {} in {}: {} bytes are more than an object may have ({})", key, describe(),
                bytes.size(), kObjectBytesMax);
  }
  const std::string what = fmt::format("cannot write {} ({} bytes)", key, bytes.size());
  const auto reply = call(what, "PUT", objects_path() + "/" + key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (reply) return {};
  Error error = reply.error();
  if (error.code == Error::Code::kNotFound) error.code = Error::Code::kRefused;  // the job is missing, not the object
  return tl::unexpected(error);
}

Result<Bytes> ServiceStore::get(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return tl::unexpected(valid.error());
  const auto reply = call("cannot read " + key, "GET", objects_path() + "/" + key);
  if (!reply) return tl::unexpected(reply.error());
  const auto body = std::as_bytes(std::span(reply->body));
  return Bytes(body.begin(), body.end());
}

Result<std::vector<std::string>> ServiceStore::list(const std::string& prefix) {
  // A key has only characters that need no escape in a URL. No key begins with a prefix that has others.
  const auto in_keys = [](char c) { return c == '/' || valid_key(std::string("x") + c); };
  if (!std::ranges::all_of(prefix, in_keys)) return std::vector<std::string>{};
  const auto reply = call("cannot list", "GET", objects_path() + (prefix.empty() ? "" : "?prefix=" + prefix));
  if (!reply) return tl::unexpected(reply.error());
  const auto answer = nlohmann::json::parse(reply->body, nullptr, false);
  std::vector<std::string> keys;
  bool fine = answer.is_object() && answer.contains("keys") && answer["keys"].is_array();
  for (size_t i = 0; fine && i < answer["keys"].size(); ++i) {
    fine = answer["keys"][i].is_string() && valid_key(answer["keys"][i].get_ref<const std::string&>());
    if (fine) keys.push_back(answer["keys"][i].get<std::string>());
  }
  if (!fine) {
    return fail(Error::Code::kUnavailable,
                "cannot list in {}: the answer is not {{\"keys\": [names]}}, it begins with \"{}\": is it a Holdfast service, "
                "and of the version of this program?",
                describe(), reply->body.substr(0, 60));
  }
  std::ranges::sort(keys);
  return keys;
}

Result<void> ServiceStore::remove(const std::string& key) {
  if (auto valid = insist_on_key(key, describe()); !valid) return valid;
  const auto reply = call("cannot remove " + key, "DELETE", objects_path() + "/" + key);
  if (!reply && reply.error().code != Error::Code::kNotFound) return tl::unexpected(reply.error());
  return {};
}

}  // namespace

std::unique_ptr<ObjectStore> open_service_store(const std::string& server_url, const std::string& job, const std::string& token,
                                                const ServiceStoreOptions& options) {
  return std::make_unique<ServiceStore>(server_url, job, token, options);
}

storage::OpenServiceStore service_stores(const std::string& server_url, const std::string& token,
                                         const std::optional<WorkerIdentity>& identity, const std::atomic<bool>* stop) {
  return
      [=](const std::string& job) { return open_service_store(server_url, job, token, {.stop = stop, .identity = identity}); };
}

}  // namespace holdfast::rendezvous
