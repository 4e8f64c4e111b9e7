#include "worker/step/step_checkpoints.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "worker/state/divided/division.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskAgain{100};

// The state as this rank is to write it, which of one that is not divided only rank 0 does. `hash`: of the whole.
StateToWrite state_to_write(const TrainLoop& loop, const std::string& hash) {
  if (!loop.session.is_divided()) return state_of(loop.session, hash);
  const int rank = loop.ring.rank(), world_size = loop.ring.world_size();
  const auto writes = written_by(loop.session, static_cast<size_t>(rank), static_cast<size_t>(world_size));
  return part_of(loop.session, {rank, world_size}, hash, writes);
}

// A rank's word to the others is its Readiness, and with these, that it leaves and that it waits no longer.
constexpr std::byte kLeaves{0x40}, kGivesUp{0x80};

// The ranks that cannot write their part of a divided state now, in words; "": none.
struct NotReady {
  std::string busy, looking, elsewhere;
  bool all_leave = true;
  bool given_up = false;  // by one of them, so that all do

  bool is_nobody() const { return busy.empty() && looking.empty() && elsewhere.empty(); }
  // The ranks whose store is not that of rank 0, or is not known to be, in words; "": none.
  std::string of_stores() const {
    if (!elsewhere.empty())
      return fmt::format("{} cannot find what rank 0 puts into the checkpoint store: it is another folder there", elsewhere);
    if (looking.empty()) return "";
    return fmt::format("what rank 0 puts into the checkpoint store is not found yet, or cannot be read, by {}", looking);
  }
  // Why there is no checkpoint now. `missing`: the part that an older one lacks.
  std::string why(const std::string& missing) const {
    if (!elsewhere.empty()) return of_stores();
    if (!missing.empty()) return missing;
    return busy.empty() ? of_stores() : "an older one is still being written by " + busy;
  }
};

// Tells the other ranks whether this one can write its part, and asks them. A part alone is no checkpoint. `is_late`: this rank
// gives up where it is not ready.
RunResult<NotReady> ask_who_is_ready(TrainLoop& loop, AskedFor asked_for, bool is_late = false) {
  const Readiness now = loop.checkpoints.reserve(loop.session.state->step, asked_for);
  std::byte mine{static_cast<uint8_t>(now)};
  if (loop.requests.leaving) mine |= kLeaves;
  if (is_late && now != Readiness::kReady) mine |= kGivesUp;
  const auto told = loop.ring.all_gather({&mine, 1});
  if (!told) {
    loop.checkpoints.forget_reservation();
    return tl::unexpected(ring_stop(told.error()));
  }
  loop.checkpoints.have_answered(now);
  NotReady others;
  for (size_t rank = 0; rank < told->size(); ++rank) {
    const std::byte of_rank = (*told)[rank].size() == 1 ? (*told)[rank][0] : std::byte{static_cast<uint8_t>(Readiness::kBusy)};
    const auto readiness = static_cast<Readiness>(of_rank & ~(kLeaves | kGivesUp));
    others.all_leave &= (of_rank & kLeaves) != std::byte{};
    if (readiness == Readiness::kReady) continue;
    others.given_up |= (of_rank & kGivesUp) != std::byte{};
    std::string& words = readiness == Readiness::kElsewhere ? others.elsewhere
                         : readiness == Readiness::kLooking ? others.looking
                                                            : others.busy;
    words += words.empty() ? "" : ", ";
    words += rank < loop.workers.size() ? loop.workers[rank] : fmt::format("rank {}", rank);
  }
  loop.checkpoints.others_are_elsewhere(others.elsewhere.empty() ? "" : others.of_stores());
  return others;
}

void tell_of_no_last_checkpoint(TrainLoop& loop, const std::string& why) {
  const auto text = fmt::format(
      "the checkpoint of step {}, the last one, could not begin in time: {}; where nobody takes over what these workers have "
      "in memory, the job goes on from the newest that is registered",
      loop.session.state->step, why);
  spdlog::warn("{}", text);
  if (loop.ring.rank() == 0) loop.outbox.event(loop.session.job, "checkpoint_failed", text);
}

}  // namespace

RunResult<void> start_checkpoint(TrainLoop& loop, const Compared& compared) {
  const auto state = [&] {
    StateToWrite made = state_to_write(loop, compared.hash);
    made.compared_s = compared.seconds;
    return made;
  };
  if (loop.session.is_divided()) {
    const auto others = ask_who_is_ready(loop, AskedFor::kOneOfMany);
    if (!others) return tl::unexpected(others.error());
    if (others->is_nobody()) return loop.checkpoints.hand_in(state(), loop.interrupt);
    loop.checkpoints.forget_reservation();
    if (loop.ring.rank() == 0) loop.checkpoints.skip(loop.session.state->step, others->why(loop.checkpoints.missing_part()));
    return {};
  }
  if (loop.ring.rank() == 0) loop.checkpoints.start(state());
  return {};
}

RunResult<LastWrite> wait_until_all_can_write(TrainLoop& loop) {
  using Clock = std::chrono::steady_clock;
  if (!loop.session.is_divided()) return LastWrite{};
  loop.be_patient();
  std::string told, said;
  const auto since = Clock::now();
  std::optional<Clock::time_point> all_leave_since;
  while (true) {
    const auto others =
        ask_who_is_ready(loop, AskedFor::kLast, all_leave_since && Clock::now() - *all_leave_since > loop.older_parts_patience);
    if (!others) return tl::unexpected(others.error());
    if (others->is_nobody()) return LastWrite{.is_alone = others->all_leave};
    loop.checkpoints.forget_reservation();  // a part that is to be tried again may be what the others wait for
    const std::string why = others->why(loop.checkpoints.missing_part());
    if (others->given_up) {
      tell_of_no_last_checkpoint(loop, why);
      return LastWrite{.begins = false};
    }
    const bool is_known = !others->elsewhere.empty() || Clock::now() - since > 2 * StoreProbe::kPatience;
    const std::string of_stores = is_known ? others->of_stores() : "";
    if (!of_stores.empty() && loop.ring.rank() == 0 && std::exchange(told, of_stores) != of_stores) {
      loop.outbox.event(loop.session.job, "checkpoint_failed",
                        fmt::format("the checkpoint of step {}, for which the job waits, cannot be written yet: {}",
                                    loop.session.state->step, of_stores));
    }
    if (others->all_leave) {
      if (!all_leave_since) all_leave_since = Clock::now();
      const auto left = loop.older_parts_patience - (Clock::now() - *all_leave_since);
      if (std::exchange(said, why) != why)
        spdlog::info(
            "the checkpoint of step {} has to wait, for at most {:.0f} s, before this worker leaves: {}; another SIGTERM ends "
            "the worker without it",
            loop.session.state->step, std::max(0.0, std::chrono::duration<double>(left).count()), why);
    }
    if (loop.interrupt.wait_for(kAskAgain)) return tl::unexpected(interrupted(loop.interrupt.reason()));
  }
}

RunResult<std::string> write_now(TrainLoop& loop, const std::string& hash, bool is_alone) {
  if (!loop.session.is_divided() && loop.ring.rank() != 0) return hash;
  const auto patience = [&]() -> std::optional<milliseconds> {
    if (!loop.requests.leaving) return std::nullopt;
    return is_alone ? TrainLoop::kLeaverPatience : loop.older_parts_patience;
  };
  auto written = loop.checkpoints.write_now(state_to_write(loop, hash), loop.interrupt, patience);
  if (!written && written.error().why == RunStop::Why::kJobFailed && loop.ring.rank() != 0)
    return tl::unexpected(fault("checkpoint_failed", written.error().reason));
  return written;
}

}  // namespace holdfast::worker
