#include "rendezvous/process/service_lives.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/prometheus_text.h"
#include "rendezvous/http/request_ids.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPause{1}, kPauseMax{60}, kShortLife{10};
constexpr auto kReminder = std::chrono::seconds(30);
constexpr const char* kWaits = "the service cannot keep anything now, and tries again every few seconds: ";

}  // namespace

ServiceLives::ServiceLives(Begin begin) : begin_(std::move(begin)) {
  try {
    start(begin_());
  } catch (const StoreFull& error) {  // an end would not help: a supervisor would only start the process again
    set_reason(std::string(kWaits) + error.what());
    said_at_ = again_at_ = steady_clock::now();
    spdlog::error("the service waits for its database: {}", error.what());
  }
}

ServiceLives::~ServiceLives() {
  end();
}

std::shared_ptr<Service> ServiceLives::present() const {
  const std::lock_guard lock(mutex_);
  return service_;
}

void ServiceLives::start(std::shared_ptr<Service> service) {
  began_at_ = steady_clock::now();
  owner_ = std::thread([service] { service->run(); });
  const std::lock_guard lock(mutex_);
  service_ = std::move(service);
}

// A request that still holds the service may end later; the stopped service answers it 503.
void ServiceLives::bury() {
  if (owner_.joinable()) owner_.join();
  const std::lock_guard lock(mutex_);
  service_.reset();
}

HttpResponse ServiceLives::absence() const {
  const std::lock_guard lock(mutex_);
  return problem_answer(problem(503, "unavailable", why_));
}

void ServiceLives::set_reason(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_ = why;
}

std::optional<HttpResponse> ServiceLives::own_answer(const HttpRequest& request) const {
  const bool health = request.path == "/healthz", metrics = request.path == "/metrics";
  if (request.method != "GET" || (!health && !metrics)) return std::nullopt;
  std::string why;
  if (const auto service = present()) {
    const auto failure = service->failure();
    if (!failure || !failure->of_store) return std::nullopt;
    why = kWaits + failure->why;
  } else {
    const std::lock_guard lock(mutex_);
    why = why_;
  }
  if (health) return json_answer(200, {{"status", "waiting"}, {"version", kHoldfastVersion}, {"reason", why}});
  PrometheusText text;
  write_build_info(text, false);
  HttpResponse response;
  response.content_type = kPrometheusType;
  response.body = text.text();
  return response;
}

Admission ServiceLives::gate(const HttpRequest& head) {
  Admission admission;
  if (auto own = own_answer(head)) {
    name_answer(*own, request_id(head));
    admission.handler = [own = *std::move(own)](const HttpRequest&, const Reply& reply) { reply(own); };
    return admission;
  }
  const auto service = present();
  if (!service) {
    admission.refusal = absence();
    return admission;
  }
  if (const auto failure = service->failure()) {  // the service has stopped by itself and is not buried yet
    admission.refusal = problem_answer(problem(503, "unavailable", kWaits + failure->why));
    return admission;
  }
  admission = service->admit(head);
  if (admission.refusal) return admission;
  admission.handler = [this, weak = std::weak_ptr(service), handler = std::move(admission.handler)](HttpRequest request,
                                                                                                    Reply reply) {
    if (const auto still = weak.lock()) return handler(std::move(request), std::move(reply));
    reply(absence());
  };
  return admission;
}

bool ServiceLives::tend() {
  const auto now = steady_clock::now();
  if (const auto service = present()) {
    const auto failure = service->failure();
    if (!failure) return true;
    set_reason(kWaits + failure->why);
    bury();
    if (!failure->of_store) return false;
    pause_ = now - began_at_ < kShortLife ? std::min(2 * pause_, kPauseMax) : kPause;
    again_at_ = now + pause_;
    said_at_ = now;
    return true;
  }
  if (now < again_at_) return true;
  try {
    start(begin_());
    spdlog::info("the database can be written again: the service goes on from its last commit");
  } catch (const StoreError& error) {
    again_at_ = now + kPause;
    set_reason(std::string(kWaits) + error.what());
    if (now < said_at_ + kReminder) return true;
    said_at_ = now;
    spdlog::error("the service still waits for its database: {}", error.what());
  }
  return true;
}

void ServiceLives::end() {
  set_reason("the service is stopping: try again");
  if (const auto service = present()) service->stop();
  bury();
}

}  // namespace holdfast::rendezvous
