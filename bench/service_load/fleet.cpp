#include "bench/service_load/fleet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/protocol/messages.h"

namespace holdfast::bench {
namespace {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): messages, every line
using std::chrono::milliseconds;

constexpr milliseconds kHeartbeat{1000}, kAgain{500};
// Apart by this much at least, so that no more connect at once than a listener's queue holds; and no divisor of a second, so
// that heartbeats that wrap around it fall between the others.
constexpr milliseconds kBetweenStarts{3};

}  // namespace

double Samples::percentile(double percent) const {
  if (ms_.empty()) return 0;
  std::vector<double> sorted = ms_;
  std::ranges::sort(sorted);
  const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

void Tally::note_error(const std::string& what, const HttpAnswer& answer) {
  ++errors;
  if (first_error.empty()) first_error = fmt::format("{}: {} {}", what, answer.status, answer.body.substr(0, 300));
}

class SimulatedWorker {
 public:
  SimulatedWorker(EventLoop& loop, const Place& place, Tally& tally, int number)
      : loop_(loop), tally_(tally), reports_(loop, place), polls_(loop, place), name_(fmt::format("load-{:04}", number)) {
    status_.incarnation = fmt::format("{}-{}", name_, getpid());
  }

  void come() {
    RegisterRequest request;
    request.name = name_;
    request.incarnation = status_.incarnation;
    request.node = "load";
    request.pid = getpid();
    request.address = "127.0.0.1:1";  // nobody connects to it
    request.device = "cpu";
    request.device_model = "simulated";
    request.numerics = "simulated";
    request.threads = 1;
    reports_.send("POST", "/v1/workers", json_text(request), [this](const HttpAnswer& answer) {
      if (answer.status != 200) return tally_.note_error("registration", answer);
      report(nullptr);
      poll();
      ++tally_.polling;
      next_heartbeat_ = Clock::now();
      beat_on();
    });
  }

 private:
  void beat_on() {
    next_heartbeat_ += kHeartbeat;
    loop_.at(next_heartbeat_, [this] {
      if (reports_.busy()) {
        ++tally_.missed;
      } else {
        report(tally_.heartbeats);
      }
      beat_on();
    });
  }

  void report(Samples* into) {
    news_ = false;
    reports_.send("POST", fmt::format("/v1/workers/{}/status", name_), json_text(status_),
                  [this, into, sent = Clock::now()](const HttpAnswer& answer) {
                    if (answer.status != 200) {
                      tally_.note_error("status", answer);
                    } else if (into != nullptr) {
                      into->add(answer.at - sent);
                    }
                    if (news_) report(nullptr);
                  });
  }

  void poll() {
    const std::string path =
        fmt::format("/v1/workers/{}/directive?incarnation={}&have={}&wait_ms=25000", name_, status_.incarnation, tag_);
    polls_.send("GET", path, "", [this](const HttpAnswer& answer) {
      if (answer.status == 204) return poll();
      if (answer.status != 200) {
        tally_.note_error("poll", answer);
        return loop_.at(Clock::now() + kAgain, [this] { poll(); });
      }
      loop_.soon([this, answer] { take_directive(answer); });
    });
  }

  void take_directive(const HttpAnswer& answer) {
    try {
      obey(nlohmann::json::parse(answer.body).get<Directive>(), answer.at);
    } catch (const std::exception& error) {
      tally_.note_error(fmt::format("directive ({})", error.what()), answer);
    }
    poll();
  }

  void obey(const Directive& directive, Moment at) {
    tag_ = directive.tag();
    if (tally_.pushed != nullptr && directive_name(directive.kind) == tally_.pushed_kind) {
      tally_.pushed->add(at - tally_.pushed_at);
      ++tally_.arrived;
    }
    const bool prepares = directive.kind == DirectiveKind::kPrepare;
    status_.phase = prepares ? Phase::kPreparing : Phase::kIdle;
    status_.job = prepares ? directive.job : "";
    status_.job_born = prepares ? directive.job_born : 0;
    news_ = true;
    if (!reports_.busy()) report(nullptr);
  }

  EventLoop& loop_;
  Tally& tally_;
  HttpConnection reports_, polls_;
  std::string name_, tag_;
  WorkerStatus status_;
  bool news_ = false;  // to be reported when the report under way is answered
  Moment next_heartbeat_;
};

Fleet::Fleet(EventLoop& loop, const Place& place, int workers) : loop_(loop) {
  for (int i = 1; i <= workers; ++i) workers_.push_back(std::make_unique<SimulatedWorker>(loop, place, tally_, i));
}

Fleet::~Fleet() = default;

void Fleet::start() {
  const Clock::duration apart = std::max<Clock::duration>(kBetweenStarts, Clock::duration(kHeartbeat) / workers_.size());
  Moment when = Clock::now();
  for (const auto& worker : workers_) {
    loop_.at(when, [&worker] { worker->come(); });
    when += apart;
  }
}

}  // namespace holdfast::bench
