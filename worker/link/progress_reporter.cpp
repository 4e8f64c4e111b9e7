#include "worker/link/progress_reporter.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/client/retry.h"

namespace holdfast::worker {
namespace {

using rendezvous::Progress;
using rendezvous::StepPoint;
using std::chrono::milliseconds;

constexpr milliseconds kInterval{100};
constexpr milliseconds kAfterRefusal{1000};
constexpr milliseconds kWaitForLastReport{2000};
constexpr size_t kPointsPerReport = 500;  // about 150 kB of JSON; the service takes 1 MB

}  // namespace

ProgressReporter::ProgressReporter(ServiceLink& link) : link_(link) {
  sender_ = std::thread([this] { send_all(); });
}

ProgressReporter::~ProgressReporter() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kWaitForLastReport, [this] { return !has_news(); });
  }
  stop_.raise("stopping");
  changed_.notify_all();
  sender_.join();
}

void ProgressReporter::begin(const std::string& job, int64_t generation, bool reports) {
  const std::lock_guard lock(mutex_);
  job_ = job;
  generation_ = generation;
  reports_ = reports;
  last_.reset();
  changed_.notify_all();
}

void ProgressReporter::end() {
  const std::lock_guard lock(mutex_);
  reports_ = false;
  last_.reset();
  changed_.notify_all();
}

void ProgressReporter::committed(StepPoint point) {
  const std::lock_guard lock(mutex_);
  history_.add(std::move(point));
  if (const int64_t dropped = history_.take_dropped(); dropped > 0) {
    spdlog::warn("the service was away for so long that the metrics of {} steps were dropped", dropped);
  }
  if (reports_) changed_.notify_all();
}

void ProgressReporter::hashed(int64_t step, const std::string& hash) {
  const std::lock_guard lock(mutex_);
  if (step < hash_step_) return;
  hash_step_ = step;
  hash_ = hash;
  hash_sent_ = false;
  changed_.notify_all();
}

bool ProgressReporter::drain(int64_t step, Interrupt& interrupt, milliseconds patience) {
  const Interrupt::Scope wake(interrupt, [this](const std::string&) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  const auto known = [&] { return history_.empty() || history_.acknowledged() >= step; };
  changed_.wait_for(lock, patience, [&] { return known() || interrupt.raised(); });
  return known();
}

void ProgressReporter::acknowledge(int64_t step) {
  const std::lock_guard lock(mutex_);
  history_.acknowledge(step);
  changed_.notify_all();
}

int64_t ProgressReporter::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return history_.acknowledged();
}

StepHistory ProgressReporter::history() const {
  const std::lock_guard lock(mutex_);
  return history_;
}

void ProgressReporter::replace_history(StepHistory history, int64_t step) {
  const std::lock_guard lock(mutex_);
  history_ = std::move(history);
  if (hash_step_ <= step) return;
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

void ProgressReporter::forget() {
  const std::lock_guard lock(mutex_);
  reports_ = false;
  last_.reset();
  job_.clear();
  history_.clear();
  hash_.clear();
  hash_step_ = -1;
  hash_sent_ = true;
}

bool ProgressReporter::finish(int64_t step, const std::string& hash, Interrupt& interrupt) {
  Progress last;
  last.step = step;
  last.state_hash = hash;
  last.state_hash_step = step;
  last.finished = true;
  return send_last(std::move(last), interrupt);
}

bool ProgressReporter::fail(int64_t step, const std::string& reason, Interrupt& interrupt) {
  Progress last;
  last.step = step;
  last.failure = reason;
  return send_last(std::move(last), interrupt);
}

bool ProgressReporter::send_last(Progress last, Interrupt& interrupt) {
  const Interrupt::Scope wake(interrupt, [this](const std::string&) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  last_ = std::move(last);
  last_sent_ = false;
  changed_.notify_all();
  changed_.wait(lock, [&] { return last_sent_ || interrupt.raised(); });
  return last_sent_;
}

bool ProgressReporter::has_news() const {
  return reports_ && (!history_.empty() || !hash_sent_ || (last_ && !last_sent_));
}

Progress ProgressReporter::next_report() const {
  const bool complete = history_.points().size() <= kPointsPerReport;
  Progress report = complete && last_ && !last_sent_ ? *last_ : Progress{};
  report.worker = link_.options().worker;
  report.incarnation = link_.options().incarnation;
  report.generation = generation_;
  report.points = history_.oldest(kPointsPerReport);
  if (!report.points.empty()) {
    report.step = report.points.back().step;
  } else if (report.step == 0) {
    report.step = history_.acknowledged();
  }
  if (complete && !hash_sent_ && report.state_hash.empty()) {
    report.state_hash = hash_;
    report.state_hash_step = hash_step_;
  }
  return report;
}

void ProgressReporter::note_sent(const Progress& sent) {
  if (sent.generation != generation_) return;  // the answer came late: this is the history of another generation
  if (!sent.points.empty()) history_.acknowledge(sent.points.back().step);
  if (sent.state_hash_step >= hash_step_) hash_sent_ = true;
  if (sent.finished || !sent.failure.empty()) last_sent_ = true;
  changed_.notify_all();
}

void ProgressReporter::send_all() {
  const auto client = link_.make_client();
  const Interrupt::Scope cancel(stop_, [&client](const std::string&) { client->cancel(); });
  while (!stop_.raised()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_news() || stopping_; });
    if (!has_news()) return;
    const Progress report = next_report();
    const std::string path = "/v1/jobs/" + job_ + "/progress";
    lock.unlock();
    // Tries once and returns: before the next try the generation may be over, or there may be more to report.
    const auto reply = link_.attempt(*client, "POST", path, rendezvous::json_text(report), std::chrono::seconds(10), false);
    lock.lock();
    if (reply) note_sent(report);
    const bool refused = !reply && !rendezvous::is_worth_repeating(reply.error());
    const bool news = refused && std::exchange(refused_generation_, report.generation) != report.generation;
    lock.unlock();
    if (news) spdlog::warn("progress of generation {} was refused: {}", report.generation, reply.error().message());
    stop_.wait_for(refused ? kAfterRefusal : kInterval);
  }
}

}  // namespace holdfast::worker
