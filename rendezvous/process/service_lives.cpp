#include "rendezvous/process/service_lives.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/build_info.h"
#include "rendezvous/http/request_ids.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPause{1}, kPauseMax{5}, kShortLife{10};
constexpr auto kReminder = std::chrono::seconds(30), kStandbyReminder = std::chrono::seconds(3600);
constexpr std::chrono::milliseconds kLook{200};  // of a service that stands by, whether it may lead
constexpr const char* kWaits = "the service cannot keep anything now, and tries again every few seconds: ";

// A refusal at the door: nothing was done, so that another service may be asked the same.
HttpResponse nothing_done(std::string_view code, const std::string& why) {
  HttpResponse answer = problem_answer(problem(503, std::string(code), why));
  answer.headers["Holdfast-Nothing-Done"] = "1";
  return answer;
}

// Requests of those who watch this process, and want nothing of it.
bool is_of_watchers(const std::string& path) {
  return path == "/healthz" || path == "/readyz" || path == "/metrics";
}

}  // namespace

ServiceLives::ServiceLives(std::shared_ptr<RequestCounts> counts, Begin begin, StandBy stand_by)
    : begin_(std::move(begin)), stand_by_(std::move(stand_by)), counts_(std::move(counts)) {
  try {
    start(begin_());
  } catch (const StoreAway& error) {  // an end would not help: a supervisor would only start the process again
    wait_for(error);
  }
}

Admission ServiceLives::not_begun() {
  Admission admission;
  admission.refusal = problem_answer(problem(503, "unavailable", "the service is starting: try again"));
  return admission;
}

void ServiceLives::wait_for(const StoreAway& error) {
  const auto now = steady_clock::now();
  const auto* leads = dynamic_cast<const StandsBy*>(&error);
  again_at_ = now + (leads != nullptr ? kLook : kPause);
  if (leads != nullptr) {
    set_reason(error.what(), leads->leader);
    if (!standby_ && stand_by_) keep(stand_by_());  // no other thread sets it
  } else {
    set_reason(std::string(kWaits) + error.what());
    keep(nullptr);
  }
  if (std::exchange(said_, error.what()) == error.what() && now < said_at_ + (leads != nullptr ? kStandbyReminder : kReminder))
    return;
  said_at_ = now;
  if (leads != nullptr) {
    spdlog::info("{}", error.what());
  } else {
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

// The one before ends here, or with the last request that is being handed to it.
void ServiceLives::keep(std::shared_ptr<Standby> standby) {
  const std::lock_guard lock(mutex_);
  standby_.swap(standby);
}

std::shared_ptr<Standby> ServiceLives::standby() const {
  const std::lock_guard lock(mutex_);
  return leader_ ? standby_ : nullptr;
}

void ServiceLives::start(std::shared_ptr<Service> service) {
  keep(nullptr);
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
  if (!leader_) return nothing_done("unavailable", why_);
  HttpResponse answer = nothing_done("not_leader", why_);
  if (!leader_->empty()) answer.headers["Holdfast-Leader"] = *leader_;
  return answer;
}

void ServiceLives::set_reason(const std::string& why, const std::optional<std::string>& leader) {
  const std::lock_guard lock(mutex_);
  why_ = why;
  leader_ = leader;
}

std::optional<HttpResponse> ServiceLives::own_answer(const HttpRequest& request) const {
  const bool health = request.path == "/healthz", metrics = request.path == "/metrics";
  if (request.method != "GET" || (!health && !metrics)) return std::nullopt;
  std::string why;
  std::optional<std::string> leader;
  if (const auto service = present()) {
    const auto failure = service->failure();
    if (!failure || !failure->of_store) return std::nullopt;
    why = kWaits + failure->why;
  } else {
    const std::lock_guard lock(mutex_);
    why = why_;
    leader = leader_;
  }
  if (health) {
    nlohmann::json body = {{"status", leader ? "standing_by" : "waiting"}, {"version", kHoldfastVersion}, {"reason", why}};
    if (leader && !leader->empty()) body["leader"] = *leader;
    return json_answer(200, body);
  }
  PrometheusText text;
  write_build_info(text, leader.has_value(), {.leads = false});
  if (const auto here = standby()) here->write(text);
  HttpResponse response;
  response.content_type = kPrometheusType;
  response.body = text.text();
  return response;
}

Admission ServiceLives::gate(const HttpRequest& head) {
  if (!is_of_watchers(head.path)) ++counts_->heard;
  Admission admission;
  if (auto own = own_answer(head)) {
    name_answer(*own, request_id(head));
    admission.handler = [own = *std::move(own)](const HttpRequest&, const Reply& reply) { reply(own); };
    return admission;
  }
  const auto service = present();
  if (!service) {
    if (const auto here = standby()) {
      if (auto admitted = here->admit(head)) return *std::move(admitted);
    }
    admission.refusal = absence();
    if (admission.refusal->headers.contains("Holdfast-Leader") && !is_of_watchers(head.path)) ++counts_->refused;
    return admission;
  }
  if (const auto failure = service->failure()) {  // the service has stopped by itself and is not buried yet
    admission.refusal = nothing_done("unavailable", kWaits + failure->why);
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
    again_at_ = failure->passes ? now : now + pause_;
    said_at_ = now;
    return true;
  }
  if (now < again_at_) return true;
  try {
    start(begin_());
    spdlog::info("the database can be written: the service goes on from its last commit");
  } catch (const StoreAway& error) {
    wait_for(error);
  } catch (const StoreError& error) {
    wait_for(StoreAway(error.what()));
  }
  return true;
}

void ServiceLives::end() {
  set_reason("the service is stopping: try again");
  keep(nullptr);
  if (const auto service = present()) service->stop();
  bury();
}

}  // namespace holdfast::rendezvous
