#include "tests/sim/service_client.h"

#include <utility>

#include "tests/sim/host.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/rules/rules.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): messages, every line

namespace {

constexpr int64_t kHeartbeatMs = 1000, kAnswerMs = 5000, kLongPollMs = 25000, kLetterMs = 10000;
constexpr int64_t kAskAgainMs = 200;

bool is_news(const WorkerStatus& a, const WorkerStatus& b) {
  return a.phase != b.phase || a.job != b.job || a.state_generation != b.state_generation || a.generation != b.generation ||
         a.leaving != b.leaving || a.reason != b.reason || a.data_digest != b.data_digest;
}

}  // namespace

void ServiceClient::start() {
  status_.incarnation = process_.incarnation();
  enroll();
  heartbeat();
}

void ServiceClient::ask(Request request, int64_t timeout_ms, const OnResponse& on_response, bool about_worker) {
  around_.network.ask(process_, std::move(request), timeout_ms, [this, on_response, about_worker](const Response& response) {
    if (response.refusal && response.refusal->code == "superseded")
      return process_.end(worker::ExitCode::kNameTaken, response.refusal->detail);
    if (response.refusal && about_worker && response.refusal->code == "stale_incarnation")
      return process_.end(worker::ExitCode::kFenced, response.refusal->detail);
    on_response(response);
  });
}

void ServiceClient::enroll() {
  RegisterRequest request;
  request.name = process_.name();
  request.incarnation = process_.incarnation();
  request.node = process_.name();
  request.address = process_.incarnation() + ":1";
  request.device = request.device_model = "cpu";
  request.numerics = "avx512";
  request.threads = 1;
  enrolling_ = true;
  ask(
      request, kAnswerMs,
      [this](const Response& response) {
        if (response.unreachable || response.refusal) return process_.later(kAskAgainMs, [this] { enroll(); });
        enrolling_ = false;
        registered_ = urgent_ = true;
        post_status();
        poll();
      },
      true);
}

void ServiceClient::enroll_again() {
  registered_ = false;
  tag_.clear();
  ++polls_;
  if (!enrolling_) enroll();
}

void ServiceClient::poll() {
  const int64_t number = ++polls_;
  ask(
      Poll{process_.name(), process_.incarnation(), tag_, kLongPollMs}, kLongPollMs + kAnswerMs,
      [this, number](const Response& response) {
        if (number == polls_) heed(response);
      },
      true);
}

void ServiceClient::heed(const Response& response) {
  if (response.refusal && response.refusal->kind == Refusal::Kind::kNotKnown) return enroll_again();
  if (response.unreachable || response.refusal) {
    return process_.later(kAskAgainMs, [this, number = polls_] {
      if (number == polls_) poll();
    });
  }
  const std::string tag = response.change ? response.change->tag() : tag_;
  if (tag != tag_) {
    tag_ = tag;
    other_tags_ = 0;
    const Directive& directive = *response.change;
    around_.story.tell(process_.name(), "is told: {} {} generation {}{}{}", directive_name(directive.kind), directive.job,
                       directive.generation, directive.reason.empty() ? "" : ", ", directive.reason);
    process_.feed(worker::DirectiveReceived{directive});
    if (directive.kind == DirectiveKind::kFence) urgent_ = true;
    post_status();
  }
  poll();
}

void ServiceClient::publish(const WorkerStatus& status) {
  urgent_ |= is_news(status_, status);
  status_ = status;
  post_status();
}

void ServiceClient::heartbeat() {
  urgent_ = true;
  post_status();
  process_.later(kHeartbeatMs, [this] { heartbeat(); });
}

void ServiceClient::post_status() {
  if (!registered_ || !urgent_ || posting_) return;
  urgent_ = false;
  posting_ = true;
  around_.rules.status_sent(process_, status_);
  ask(
      StatusMessage{process_.name(), status_}, kAnswerMs,
      [this](const Response& response) {
        posting_ = false;
        if (response.refusal && response.refusal->kind == Refusal::Kind::kNotKnown) return enroll_again();
        if (!response.unreachable && !response.refusal) note_tag(response.tag);
        post_status();
      },
      true);
}

void ServiceClient::note_tag(const std::string& tag) {
  other_tags_ = tag == tag_ ? 0 : other_tags_ + 1;
  if (other_tags_ < 2) return;
  other_tags_ = 0;
  poll();
}

void ServiceClient::report_fault(const std::string& job, FaultReport report) {
  report.worker = process_.name();
  report.incarnation = process_.incarnation();
  around_.story.tell(process_.name(), "reports of generation {}: {}, suspects rank {}", report.generation, report.kind,
                     report.suspect_rank);
  letters_.push_back({job, std::move(report)});
  send_letters();
}

void ServiceClient::send_letters() {
  if (sending_ || letters_.empty()) return;
  sending_ = true;
  ask(
      letters_.front(), kLetterMs,
      [this](const Response& response) {
        sending_ = false;
        if (may_pass(response)) return process_.later(kAskAgainMs, [this] { send_letters(); });
        letters_.pop_front();
        send_letters();
      },
      false);
}

}  // namespace holdfast::sim
