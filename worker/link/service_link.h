// The way to the service, shared by every thread of a worker that talks to it.
//
// Promises: `deliver` tries for as long as it takes, through a restart of the service. That the service is away is logged
// once, and once that it is back. Answers that end this process (wrong token, fenced, name taken) reach `on_fatal` from the
// thread that saw them first.
// Thread: any; each thread uses an HttpClient of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/client/http_client.h"
#include "rendezvous/protocol/messages.h"
#include "worker/link/exit_codes.h"
#include "worker/link/interrupt.h"

namespace holdfast::worker {

struct LinkOptions {
  std::string server, token;
  std::string worker;  // the name, and so the id
  std::string incarnation;
  std::chrono::milliseconds first_back_off{100}, longest_back_off{2000};
  std::function<bool()> is_cut{};  // in a drill: while it is true, no request is sent and no answer is heard
};

struct Delivery {
  enum class How { kDelivered, kRejected, kStopped } how;
  rendezvous::HttpReply reply;  // when delivered
  rendezvous::Problem problem;  // when rejected
};

class ServiceLink {
 public:
  using OnFatal = std::function<void(ExitCode, const std::string&)>;

  ServiceLink(LinkOptions options, OnFatal on_fatal) : options_(std::move(options)), on_fatal_(std::move(on_fatal)) {}

  const LinkOptions& options() const { return options_; }
  // How long the service believes that a silent worker is alive, as its last answer to a registration said.
  std::chrono::milliseconds lease() const { return std::chrono::milliseconds(lease_ms_.load()); }
  // The service has answered a registration. From now on answers that are no service's, such as those of a proxy that has lost
  // its way to it, count as none.
  void note_registered(int64_t lease_ms) {
    lease_ms_ = lease_ms;
    has_registered_ = true;
  }
  std::unique_ptr<rendezvous::HttpClient> make_client() const;

  // Tries once. `about_worker`: the path names this worker, so "stale incarnation" means that this process is fenced.
  using Reply = tl::expected<rendezvous::HttpReply, rendezvous::HttpFailure>;
  Reply attempt(rendezvous::HttpClient& client, std::string_view method, const std::string& path, const std::string& body,
                std::chrono::milliseconds timeout, bool about_worker);
  // Tries until it is answered or `stop` is raised.
  Delivery deliver(rendezvous::HttpClient& client, const std::string& path, const std::string& body, Interrupt& stop);

  void fail(ExitCode code, const std::string& reason) { on_fatal_(code, reason); }

 private:
  Reply exchange(rendezvous::HttpClient& client, std::string_view method, const std::string& path, const std::string& body,
                 std::chrono::milliseconds timeout) const;
  void note_away(const rendezvous::HttpFailure& failure);
  void note_back();

  LinkOptions options_;
  OnFatal on_fatal_;
  std::atomic<int64_t> lease_ms_{rendezvous::RegisterReply{}.lease_ms};
  std::atomic<bool> has_registered_ = false;
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> away_since_;
};

}  // namespace holdfast::worker
