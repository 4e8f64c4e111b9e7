// The way to the service, shared by every thread of a worker that talks to it.
//
// Promises: what `deliver` was given is tried for as long as it takes, through a restart of the service; that the service
// is away, and that it is back, is said once each. Answers that end this process (wrong token, fenced, name taken) reach
// `on_fatal` from whichever thread saw them first.
// Thread: any; each thread uses an HttpClient of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "rendezvous/protocol/http_client.h"
#include "worker/exit_codes.h"
#include "worker/interrupt.h"

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
  std::unique_ptr<rendezvous::HttpClient> make_client() const;

  // Once. `about_worker`: the path speaks of this worker, so "stale incarnation" means that this process is fenced.
  using Reply = tl::expected<rendezvous::HttpReply, rendezvous::HttpFailure>;
  Reply attempt(rendezvous::HttpClient& client, std::string_view method, const std::string& path, const std::string& body,
                std::chrono::milliseconds timeout, bool about_worker);
  // Until it is answered or `stop` is raised.
  Delivery deliver(rendezvous::HttpClient& client, const std::string& path, const std::string& body, Interrupt& stop);

  // Whether the same request may succeed later: no answer, or the service said that it is busy.
  static bool may_pass(const rendezvous::HttpFailure& failure);
  void fail(ExitCode code, const std::string& reason) { on_fatal_(code, reason); }

 private:
  Reply exchange(rendezvous::HttpClient& client, std::string_view method, const std::string& path, const std::string& body,
                 std::chrono::milliseconds timeout) const;
  void note_away(const rendezvous::HttpFailure& failure);
  void note_back();

  LinkOptions options_;
  OnFatal on_fatal_;
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> away_since_;
};

}  // namespace holdfast::worker
