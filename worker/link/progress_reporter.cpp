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

constexpr milliseconds kInterval{100}, kAskWhetherToGiveUp{100};
constexpr milliseconds kAfterRefusal{1000}, kRepeatEnd{1000};
constexpr milliseconds kWaitForLastReport{2000};
constexpr size_t kPointsPerReport = 500;  // about 150 kB of JSON where they have no shares

}  // namespace

ProgressReporter::ProgressReporter(ServiceLink& link) : link_(link), progress_(kPointsPerReport) {
  sender_ = std::thread([this] { send_all(); });
}

ProgressReporter::~ProgressReporter() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kWaitForLastReport, [this] { return !progress_.has_news(); });
  }
  stop_.raise("stopping");
  changed_.notify_all();
  sender_.join();
}

void ProgressReporter::begin(const std::string& job, int64_t generation, bool reports,
                             std::optional<rendezvous::StateDivision> division) {
  const std::lock_guard lock(mutex_);
  progress_.begin(job, generation, reports, std::move(division));
  changed_.notify_all();
}

void ProgressReporter::divided(std::optional<rendezvous::StateDivision> division) {
  const std::lock_guard lock(mutex_);
  progress_.divided(std::move(division));
}

void ProgressReporter::end() {
  const std::lock_guard lock(mutex_);
  progress_.end();
  changed_.notify_all();
}

void ProgressReporter::committed(StepPoint point) {
  const std::lock_guard lock(mutex_);
  progress_.committed(std::move(point));
  if (const int64_t dropped = progress_.take_dropped(); dropped > 0) {
    spdlog::warn("the service was away for so long that the metrics of {} steps were dropped", dropped);
  }
  changed_.notify_all();
}

void ProgressReporter::hashed(int64_t step, const std::string& hash) {
  const std::lock_guard lock(mutex_);
  progress_.hashed(step, hash);
  changed_.notify_all();
}

bool ProgressReporter::drain(int64_t step, Interrupt& interrupt, milliseconds patience) {
  const Interrupt::Scope wake(interrupt, [this](const std::string&) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return progress_.knows(step) || interrupt.raised(); });
  return progress_.knows(step);
}

void ProgressReporter::acknowledge(int64_t step) {
  const std::lock_guard lock(mutex_);
  progress_.acknowledge(step);
  changed_.notify_all();
}

int64_t ProgressReporter::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return progress_.history().acknowledged();
}

StepHistory ProgressReporter::valid_history(std::span<const rendezvous::GenerationBegin> began) const {
  const std::lock_guard lock(mutex_);
  return progress_.valid_history(began);
}

StepHistory ProgressReporter::history() const {
  const std::lock_guard lock(mutex_);
  return progress_.history();
}

void ProgressReporter::replace_history(StepHistory history, int64_t step) {
  const std::lock_guard lock(mutex_);
  progress_.replace_history(std::move(history), step);
}

void ProgressReporter::forget() {
  const std::lock_guard lock(mutex_);
  progress_.forget();
}

void ProgressReporter::on_checkpoint_unknown(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  on_checkpoint_unknown_ = std::move(call);
}

bool ProgressReporter::finish(int64_t step, const std::string& hash, Interrupt& interrupt, const GivesUp& gives_up) {
  return wait_for_answer(interrupt, gives_up, [&] { progress_.finish(step, hash); });
}

bool ProgressReporter::fail(int64_t step, const std::string& reason, Interrupt& interrupt, const GivesUp& gives_up) {
  return wait_for_answer(interrupt, gives_up, [&] { progress_.fail(step, reason); });
}

bool ProgressReporter::wait_for_answer(Interrupt& interrupt, const GivesUp& gives_up, const std::function<void()>& say) {
  const Interrupt::Scope wake(interrupt, [this](const std::string&) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  say();
  changed_.notify_all();
  const auto is_over = [&] { return progress_.end_is_confirmed() || interrupt.raised(); };
  while (!changed_.wait_for(lock, kAskWhetherToGiveUp, is_over)) {
    lock.unlock();
    const bool given_up = gives_up();
    lock.lock();
    if (given_up) break;
  }
  return progress_.end_is_confirmed();
}

// False: there is nothing to say, and this object is being destroyed.
bool ProgressReporter::wait_for_report(std::unique_lock<std::mutex>& lock) {
  const auto due = [this] { return progress_.has_news() || stopping_; };
  while (!due()) {
    if (!progress_.may_repeat_end()) {
      changed_.wait(lock);
    } else if (changed_.wait_for(lock, kRepeatEnd) == std::cv_status::timeout && progress_.may_repeat_end()) {
      return true;
    }
  }
  return progress_.has_news();
}

void ProgressReporter::send_all() {
  const auto client = link_.make_client();
  const Interrupt::Scope cancel(stop_, [&client](const std::string&) { client->cancel(); });
  while (!stop_.raised()) {
    std::unique_lock lock(mutex_);
    if (!wait_for_report(lock)) return;
    Progress report = progress_.next_report();
    report.worker = link_.options().worker;
    report.incarnation = link_.options().incarnation;
    const std::string job = progress_.job();
    lock.unlock();
    // Tries once and returns: before the next try the generation may be over, or there may be more to report.
    const auto reply = link_.attempt(*client, "POST", "/v1/jobs/" + job + "/progress", rendezvous::json_text(report),
                                     std::chrono::seconds(10), false);
    const bool refused = !reply && !rendezvous::is_worth_repeating(reply.error());
    lock.lock();
    if (reply) progress_.note_sent(job, report);
    if (refused && reply.error().problem.code == "checkpoint_unknown" && on_checkpoint_unknown_) on_checkpoint_unknown_();
    changed_.notify_all();
    const bool news = refused && std::exchange(refused_generation_, report.generation) != report.generation;
    lock.unlock();
    if (news) spdlog::warn("progress of generation {} was refused: {}", report.generation, reply.error().message());
    stop_.wait_for(refused ? kAfterRefusal : kInterval);
  }
}

}  // namespace holdfast::worker
