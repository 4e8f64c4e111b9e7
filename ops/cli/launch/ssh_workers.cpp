#include "ops/cli/launch/ssh_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "ops/cli/command/command.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

using std::chrono::milliseconds;

constexpr auto kLookAtChildren = milliseconds(50);
constexpr milliseconds kFirstPause{1000}, kLongestPause{30'000}, kPauseAtEnd{2000};
constexpr std::chrono::seconds kLeavesWithin{30};  // by the service's word, when the job has ended
constexpr std::chrono::seconds kToldWithin{60};    // by ours, where that did not come
constexpr std::chrono::seconds kSteady{60};        // a worker that lived so long is started again at once

std::string in_seconds(milliseconds duration) {
  return fmt::format("{:.0f} s", static_cast<double>(duration.count()) / 1000);
}

}  // namespace

SshWorkers::SshWorkers(SshSettings settings, const std::vector<Place>& places) : settings_(std::move(settings)) {
  for (const Place& place : places) kept_.push_back({place});
  thread_ = std::thread([this] { look_after(); });
}

SshWorkers::~SshWorkers() {
  disconnect();
  thread_.join();
}

void SshWorkers::disconnect() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (Kept& kept : kept_) {
    if (kept.ssh) kept.ssh->terminate();
  }
}

std::vector<std::string> SshWorkers::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

bool SshWorkers::is_hopeless() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(kept_, [](const Kept& kept) { return kept.state == State::kRefused; });
}

bool SshWorkers::all_over() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(kept_,
                             [](const Kept& kept) { return kept.state == State::kEnded || kept.state == State::kRefused; });
}

bool SshWorkers::leave_together() {
  {
    const std::lock_guard lock(mutex_);
    job_over_ = true;
    for (Kept& kept : kept_) kept.again = std::min(kept.again, Clock::now() + kPauseAtEnd);
  }
  auto deadline = Clock::now() + kLeavesWithin;
  while (!all_over() && Clock::now() < deadline) std::this_thread::sleep_for(kLookAtChildren);
  if (all_over()) return true;
  tell_to_leave();
  deadline = Clock::now() + kLeavesWithin;
  while (!all_over() && Clock::now() < deadline) std::this_thread::sleep_for(kLookAtChildren);
  const std::lock_guard lock(mutex_);
  bool all = true;
  for (const Kept& kept : kept_) {
    if (kept.state == State::kEnded || kept.state == State::kRefused) continue;
    all = false;
    note(kept, "is not reached. A worker that still runs there leaves when it hears from the service that the job has ended");
  }
  return all;
}

// On connections of their own, and all at once: one that takes long holds up nobody.
void SshWorkers::tell_to_leave() {
  std::vector<std::unique_ptr<ChildProcess>> told;
  {
    const std::lock_guard lock(mutex_);
    for (const Kept& kept : kept_) {
      if (kept.state != State::kKept) continue;
      note(kept, "its worker has not left by itself: it is told to");
      try {
        told.push_back(
            std::make_unique<ChildProcess>(end_command(settings_.options, kept.place.seat.address, kept.place.worker), ""));
      } catch (const Failure& shortage) {
        note(kept, fmt::format("it cannot be told: {}", shortage.message));
      }
    }
  }
  const auto deadline = Clock::now() + kToldWithin;
  const auto all_ended = [&] { return std::ranges::all_of(told, [](const auto& ssh) { return ssh->status().has_value(); }); };
  while (!all_ended() && Clock::now() < deadline) std::this_thread::sleep_for(kLookAtChildren);
}

// --- its own thread

void SshWorkers::look_after() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (bool over = false; !over; std::this_thread::sleep_for(kLookAtChildren)) {
    const std::lock_guard lock(mutex_);
    over = over_;
    for (Kept& kept : kept_) {
      if (!over) look_at(kept);
    }
  }
  const std::lock_guard lock(mutex_);
  for (Kept& kept : kept_) kept.ssh.reset();
}

void SshWorkers::look_at(Kept& kept) {
  if (kept.state == State::kAway && Clock::now() >= kept.again) {
    try {
      kept.ssh = std::make_unique<ChildProcess>(keep_command(settings_.options, kept.place.seat.address, kept.place.worker),
                                                settings_.token + "\n");
    } catch (const Failure& shortage) {  // of processes or memory: it passes
      kept.again = Clock::now() + kLongestPause;
      return tell_trouble(kept, fmt::format("is not connected to ({}), which is tried again in {}", shortage.message,
                                            in_seconds(kLongestPause)));
    }
    kept.state = State::kConnecting;
    kept.born = Clock::now();
    kept.last_words.clear();
  }
  if (!kept.ssh) return;
  const auto status = kept.ssh->status();
  hear(kept);
  if (status) end_of_connection(kept, *status);
}

void SshWorkers::hear(Kept& kept) {
  for (const std::string& line : kept.ssh->take_lines()) {
    if (line == kWorkerStarted || line == kWorkerFound) {
      const bool again = !kept.told.empty();
      note(kept, line == kWorkerFound ? "reached again: its worker runs"
                 : again              ? "its worker is started again"
                                      : "its worker is started");
      kept.told.clear();
      kept.state = State::kKept;
    } else if (!line.empty()) {
      kept.last_words = printable(line);
    }
  }
}

void SshWorkers::end_of_connection(Kept& kept, int status) {
  kept.ssh.reset();
  if (status == 0 || status == kCannotWork) {
    kept.state = status == 0 ? State::kEnded : State::kRefused;
    note(kept, status == 0 ? "its worker has left" : fmt::format("its worker cannot work there: {}", kept.last_words));
    return;
  }
  const bool lost = status == kSshFailed;
  if (kept.state == State::kKept && (lost || Clock::now() - kept.born >= kSteady)) kept.pause = kFirstPause;
  kept.state = State::kAway;
  const milliseconds pause = job_over_ ? std::min(kept.pause, kPauseAtEnd) : kept.pause;
  kept.again = Clock::now() + pause;
  kept.pause = std::min(2 * kept.pause, kLongestPause);
  if (lost) {
    tell_trouble(kept, fmt::format("is not reached ({}); a worker that runs there trains on, and the connection is tried again",
                                   kept.last_words.empty() ? "the connection ended" : kept.last_words));
  } else {
    tell_trouble(kept, fmt::format("its worker ended with status {} ({}); it is started again in {}", status,
                                   kept.last_words.empty() ? "it left no word" : kept.last_words, in_seconds(pause)));
  }
}

void SshWorkers::note(const Kept& kept, const std::string& what) {
  notes_.push_back(fmt::format("{}: {}", kept.place.seat.worker, what));
}

// The same trouble is told once.
void SshWorkers::tell_trouble(Kept& kept, const std::string& what) {
  if (kept.told == what) return;
  kept.told = what;
  note(kept, what);
}

}  // namespace holdfast::ops
