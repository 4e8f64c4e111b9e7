#include "worker/link/service_link.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "rendezvous/client/retry.h"

namespace holdfast::worker {

using rendezvous::HttpClient;
using rendezvous::HttpFailure;
using rendezvous::is_worth_repeating;

std::unique_ptr<HttpClient> ServiceLink::make_client() const {
  return std::make_unique<HttpClient>(options_.server, options_.token);
}

// A drill's cut drops requests and answers alike: a request may have been carried out although its answer is lost.
ServiceLink::Reply ServiceLink::exchange(HttpClient& client, std::string_view method, const std::string& path,
                                         const std::string& body, std::chrono::milliseconds timeout) const {
  const bool cut_before = options_.is_cut && options_.is_cut();
  if (!cut_before) {
    auto reply = client.request(method, path, body, "application/json", timeout);
    if (!options_.is_cut || !options_.is_cut()) return reply;
  }
  HttpFailure lost;
  lost.unreachable = true;
  lost.base_url = client.base_url();
  lost.cause = "cut off by a drill";
  return tl::unexpected(std::move(lost));
}

ServiceLink::Reply ServiceLink::attempt(HttpClient& client, std::string_view method, const std::string& path,
                                        const std::string& body, std::chrono::milliseconds timeout, bool about_worker) {
  auto reply = exchange(client, method, path, body, timeout);
  if (!reply && has_registered_ && !reply.error().unreachable && reply.error().problem.code.empty()) {
    HttpFailure& foreign = reply.error();
    foreign.cause = fmt::format("an answer with status {} that is not a Holdfast service's", foreign.problem.status);
    foreign.unreachable = true;
  }
  if (reply || !is_worth_repeating(reply.error())) note_back();
  if (reply || reply.error().cancelled) return reply;
  const HttpFailure& failure = reply.error();
  if (is_worth_repeating(failure)) {
    note_away(failure);
  } else if (failure.problem.status == 401 || failure.problem.status == 403) {
    fail(ExitCode::kConfiguration, failure.message());
  } else if (failure.problem.code == "name_taken" || failure.problem.code == "superseded") {
    fail(ExitCode::kNameTaken, failure.message() + "; give each worker its own --name");
  } else if (about_worker && failure.problem.code == "stale_incarnation") {
    fail(ExitCode::kFenced, failure.message());
  }
  return reply;
}

Delivery ServiceLink::deliver(HttpClient& client, const std::string& path, const std::string& body, Interrupt& stop) {
  rendezvous::BackOff back_off(options_.first_back_off, options_.longest_back_off);
  while (!stop.raised()) {
    auto reply = attempt(client, "POST", path, body, std::chrono::seconds(10), false);
    if (reply) return {Delivery::How::kDelivered, std::move(*reply), {}};
    if (!is_worth_repeating(reply.error())) return {Delivery::How::kRejected, {}, std::move(reply.error().problem)};
    stop.wait_for(back_off.next());
  }
  return {Delivery::How::kStopped, {}, {}};
}

void ServiceLink::note_away(const HttpFailure& failure) {
  const std::lock_guard lock(mutex_);
  if (away_since_) return;
  away_since_ = std::chrono::steady_clock::now();
  spdlog::warn("the service is away, work goes on: {}", failure.message());
}

void ServiceLink::note_back() {
  const std::lock_guard lock(mutex_);
  if (!away_since_) return;
  const std::chrono::duration<double> away = std::chrono::steady_clock::now() - *away_since_;
  away_since_.reset();
  spdlog::info("the service at {} is back after {:.1f} s", options_.server, away.count());
}

}  // namespace holdfast::worker
