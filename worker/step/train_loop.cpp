#include "worker/step/train_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "worker/state/divided/agreement.h"
#include "worker/state/divided/division.h"
#include "worker/state/divided/filling.h"
#include "worker/step/compare_states.h"
#include "worker/step/evaluation.h"
#include "worker/step/load_balancer.h"
#include "worker/step/step_start.h"
#include "worker/step/train_step.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A worker that leaves does not wait longer than this for a service that is away.
constexpr seconds kLeaverPatience{20};
// A service that is there tells all members to yield within this.
constexpr seconds kToldWithin{5};
constexpr milliseconds kAskAgain{100};

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

// Work that is not a step may take longer than a step, and differently long on each rank.
void be_patient(TrainLoop& loop) {
  const Patience& patience = loop.session.patience;
  loop.ring.set_patience(patience.ceiling(), patience.question(), loop.on_quiet);
}

RunResult<void> evaluate_now(TrainLoop& loop, rendezvous::StepPoint& point) {
  be_patient(loop);
  const auto loss = evaluate(loop.session, loop.ring);
  if (loss) {
    point.validation_loss = *loss;
    return {};
  }
  const auto text =
      fmt::format("the evaluation after step {} was broken off and is not made again: {}", point.step, loss.error().reason);
  loop.outbox.event(loop.session.job, "evaluation_left_out", text);
  return tl::unexpected(loss.error());
}

// The last comparison of the ranks' states.
struct Compared {
  int64_t step = -1;
  std::string hash;
  double seconds = 0;  // for how long training stood still for it
};

// Compares the ranks' states, before any of them is written down; once for each step.
RunResult<void> compare_once(TrainLoop& loop, Compared& compared) {
  if (compared.step == loop.session.state->step) return {};
  const auto begun = std::chrono::steady_clock::now();
  const auto hash = compare_states(loop);
  if (!hash) return tl::unexpected(hash.error());
  compared = {loop.session.state->step, *hash, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()};
  if (loop.ring.rank() == 0) loop.reporter.hashed(compared.step, compared.hash);
  return {};
}

// A line in the job's log every so many steps.
void log_progress(const TrainLoop& loop, const rendezvous::StepPoint& point) {
  const rendezvous::JobSpec& spec = loop.session.spec;
  if (loop.ring.rank() != 0 || !due(point.step, spec.log_every)) return;
  const std::string validation = point.validation_loss ? fmt::format(", validation loss {:.4f}", *point.validation_loss) : "";
  spdlog::info("step {} of {}: loss {:.4f}{}, {:.3g} s, {:.0f} tokens/s", point.step, spec.total_steps, point.loss, validation,
               point.step_s, point.step_s > 0 ? static_cast<double>(point.tokens) / point.step_s : 0);
}

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
  std::string busy, elsewhere;
  bool all_leave = true;
  bool given_up = false;  // by one of them, so that all do

  bool is_nobody() const { return busy.empty() && elsewhere.empty(); }
  // Why there is no checkpoint now. `missing`: the part that an older one lacks.
  std::string why(const std::string& missing) const {
    if (!elsewhere.empty())
      return fmt::format("{} cannot find what rank 0 puts into the checkpoint store: it is another folder there", elsewhere);
    return missing.empty() ? "an older one is still being written by " + busy : missing;
  }
};

// Tells the other ranks whether this one can write its part, and asks them. A part alone is no checkpoint. `is_late`: this rank
// gives up where it is not ready.
RunResult<NotReady> ask_who_is_ready(TrainLoop& loop, bool is_late = false) {
  const Readiness now = loop.checkpoints.reserve(loop.session.state->step);
  std::byte mine{static_cast<uint8_t>(now)};
  if (loop.requests.leaving) mine |= kLeaves;
  if (is_late && now != Readiness::kReady) mine |= kGivesUp;
  const auto told = loop.ring.all_gather({&mine, 1});
  if (!told) {
    loop.checkpoints.forget_reservation();
    return tl::unexpected(ring_stop(told.error()));
  }
  NotReady others;
  for (size_t rank = 0; rank < told->size(); ++rank) {
    const std::byte of_rank = (*told)[rank].size() == 1 ? (*told)[rank][0] : std::byte{static_cast<uint8_t>(Readiness::kBusy)};
    const auto readiness = static_cast<Readiness>(of_rank & ~(kLeaves | kGivesUp));
    others.all_leave &= (of_rank & kLeaves) != std::byte{};
    if (readiness == Readiness::kReady) continue;
    others.given_up |= (of_rank & kGivesUp) != std::byte{};
    std::string& words = readiness == Readiness::kElsewhere ? others.elsewhere : others.busy;
    words += words.empty() ? "" : ", ";
    words += rank < loop.workers.size() ? loop.workers[rank] : fmt::format("rank {}", rank);
  }
  loop.checkpoints.others_are_elsewhere(others.elsewhere.empty() ? "" : others.why(""));
  return others;
}

RunResult<void> start_checkpoint(TrainLoop& loop, const Compared& compared) {
  const auto state = [&] {
    StateToWrite made = state_to_write(loop, compared.hash);
    made.compared_s = compared.seconds;
    return made;
  };
  if (loop.session.is_divided()) {
    const auto others = ask_who_is_ready(loop);
    if (!others) return tl::unexpected(others.error());
    if (others->is_nobody()) return loop.checkpoints.hand_in(state(), loop.interrupt);
    loop.checkpoints.forget_reservation();
    if (loop.ring.rank() == 0) loop.checkpoints.skip(loop.session.state->step, others->why(loop.checkpoints.missing_part()));
    return {};
  }
  if (loop.ring.rank() == 0) loop.checkpoints.start(state());
  return {};
}

void tell_of_no_last_checkpoint(TrainLoop& loop, const std::string& why) {
  const auto text = fmt::format(
      "the checkpoint of step {}, the last one, could not begin in time: {}; where nobody takes over what these workers have "
      "in "
      "memory, the job goes on from the newest that is registered",
      loop.session.state->step, why);
  spdlog::warn("{}", text);
  if (loop.ring.rank() == 0) loop.outbox.event(loop.session.job, "checkpoint_failed", text);
}

struct LastWrite {
  bool begins = true;    // false: all ranks leave, and have waited for each other long enough
  bool is_alone = true;  // no rank stays that waits for this one's part
};

// Before `write_now`, which may be with all ranks or with rank 0 alone.
RunResult<LastWrite> wait_until_all_can_write(TrainLoop& loop) {
  using Clock = std::chrono::steady_clock;
  if (!loop.session.is_divided()) return LastWrite{};
  be_patient(loop);
  std::string told, said;
  std::optional<Clock::time_point> all_leave_since;
  while (true) {
    const auto others = ask_who_is_ready(loop, all_leave_since && Clock::now() - *all_leave_since > loop.older_parts_patience);
    if (!others) return tl::unexpected(others.error());
    if (others->is_nobody()) return LastWrite{.is_alone = others->all_leave};
    loop.checkpoints.forget_reservation();  // a part that is to be tried again may be what the others wait for
    const std::string why = others->why(loop.checkpoints.missing_part());
    if (others->given_up) {
      tell_of_no_last_checkpoint(loop, why);
      return LastWrite{.begins = false};
    }
    if (!others->elsewhere.empty() && loop.ring.rank() == 0 && std::exchange(told, others->elsewhere) != others->elsewhere) {
      loop.outbox.event(loop.session.job, "checkpoint_failed",
                        fmt::format("the checkpoint of step {}, for which the job waits, cannot be written yet: {}",
                                    loop.session.state->step, others->why("")));
    }
    if (others->all_leave) {
      if (!all_leave_since) all_leave_since = Clock::now();
      const auto left = loop.older_parts_patience - (Clock::now() - *all_leave_since);
      if (std::exchange(said, why) != why)
        spdlog::info(
            "the checkpoint of step {} has to wait, for at most {:.0f} s, before this worker leaves: {}; another SIGTERM ends "
            "the "
            "worker without it",
            loop.session.state->step, std::max(0.0, std::chrono::duration<double>(left).count()), why);
    }
    if (loop.interrupt.wait_for(kAskAgain)) return tl::unexpected(interrupted(loop.interrupt.reason()));
  }
}

// Returns the state's hash when what this rank writes of it is durable and, on rank 0, registered. At a job's end a part that
// can never be written ends the generation, for rank 0 would wait for it. `is_alone`: LastWrite; a rank for whose part others
// wait tries for as long as older parts are waited for.
RunResult<std::string> write_now(TrainLoop& loop, const std::string& hash, bool is_alone) {
  if (!loop.session.is_divided() && loop.ring.rank() != 0) return hash;
  const auto patience = [&]() -> std::optional<milliseconds> {
    if (!loop.requests.leaving) return std::nullopt;
    return is_alone ? kLeaverPatience : loop.older_parts_patience;
  };
  auto written = loop.checkpoints.write_now(state_to_write(loop, hash), loop.interrupt, patience);
  if (!written && written.error().why == RunStop::Why::kJobFailed && loop.ring.rank() != 0)
    return tl::unexpected(fault("checkpoint_failed", written.error().reason));
  return written;
}

// The work that follows some of the steps. The step is reported first, unless its report includes a result of that work.
RunResult<void> after_step(TrainLoop& loop, rendezvous::StepPoint point, Compared& compared) {
  const Span phase(SpanKind::kPhase, "after the step");
  const rendezvous::JobSpec& spec = loop.session.spec;
  RunResult<void> result;
  if (evaluation_due(loop.session)) result = evaluate_now(loop, point);
  const int64_t step = point.step;
  log_progress(loop, point);
  if (loop.tensorboard != nullptr) loop.tensorboard->add(point);
  loop.reporter.committed(std::move(point));
  loop.on_commit(step);
  if (!result) return result;
  const bool writes = due(step, spec.checkpoint_every) && step < spec.total_steps;
  if (writes || due(step, spec.hash_every)) result = compare_once(loop, compared);
  if (result && writes) result = start_checkpoint(loop, compared);
  if (!result && writes && loop.ring.rank() == 0)
    loop.checkpoints.skip(step, "the generation ended before it could begin: " + result.error().reason);
  return result;
}

// Ranks that are not in the next generation give what only they have to the others. Which they are is in the directives that
// tell all to yield: the first to get its own is what stops this generation, so the others wait for theirs. Whether all were
// told to end.
RunResult<bool> hand_over_what_goes(TrainLoop& loop) {
  constexpr std::byte kGoes{1}, kEnds{2};
  if (!loop.session.is_divided() || loop.ring.world_size() == 1) return false;
  be_patient(loop);  // the one that leaves is there at once, and while the service is away the others wait
  const auto deadline = std::chrono::steady_clock::now() + kToldWithin;
  while (!loop.requests.yield && std::chrono::steady_clock::now() < deadline) {
    if (loop.interrupt.wait_for(milliseconds(5))) return tl::unexpected(interrupted(loop.interrupt.reason()));
  }
  const std::byte mine = loop.requests.leaving ? kGoes | kEnds : loop.requests.released ? kGoes : std::byte{};
  const auto told = loop.ring.all_gather({&mine, 1});
  if (!told) return tl::unexpected(ring_stop(told.error()));
  RankSet going;
  bool all_end = true;
  for (const auto& words : *told) {
    const std::byte word = words.size() == 1 ? words[0] : std::byte{};
    going.push_back((word & kGoes) != std::byte{});
    all_end &= (word & kEnds) != std::byte{};
  }
  const auto count = std::ranges::count(going, true);
  if (count == 0 || count == loop.ring.world_size()) return all_end;
  if (auto handed = hand_over_before_leaving(loop.ring, loop.session, loop.node, going); !handed)
    return tl::unexpected(handed.error());
  return false;
}

RunStop yield_after_step(TrainLoop& loop, const StepAgreement& agreed, Compared& compared) {
  const auto all_end = hand_over_what_goes(loop);
  if (!all_end) return all_end.error();
  if (!agreed.checkpoint && !agreed.all_leaving && !*all_end) return {.why = RunStop::Why::kYielded};
  if (auto same = compare_once(loop, compared); !same) return same.error();
  const auto can = wait_until_all_can_write(loop);
  if (!can) return can.error();
  if (!can->begins) return {.why = RunStop::Why::kYielded};
  const auto written = write_now(loop, compared.hash, can->is_alone);
  if (!written && written.error().superseded_by > 0) return written.error();
  if (!written) spdlog::warn("stopping without a registered checkpoint: {}", written.error().reason);
  return {.why = RunStop::Why::kYielded};
}

// The generation ends when the service says so; until then this worker is part of it.
RunStop wait_until_told(TrainLoop& loop) {
  while (!loop.interrupt.wait_for(milliseconds(20))) {
    if (loop.requests.yield || loop.requests.leaving) return {.why = RunStop::Why::kYielded};
  }
  return interrupted(loop.interrupt.reason());
}

// Whether this worker was told to leave so long ago that it does not wait any longer for a service that is away.
ProgressReporter::GivesUp leaver_has_waited(const TrainLoop& loop) {
  return [&loop, since = std::optional<std::chrono::steady_clock::time_point>()]() mutable {
    if (!loop.requests.leaving) return false;
    if (!since) since = std::chrono::steady_clock::now();
    return std::chrono::steady_clock::now() - *since > kLeaverPatience;
  };
}

RunStop finish_job(TrainLoop& loop, Compared& compared) {
  if (auto same = compare_once(loop, compared); !same) return same.error();
  const auto can = wait_until_all_can_write(loop);
  if (!can) return can.error();
  if (!can->begins) return wait_until_told(loop);
  const auto hash = write_now(loop, compared.hash, can->is_alone);
  if (!hash) return hash.error();
  if (loop.ring.rank() == 0 &&
      !loop.reporter.finish(loop.session.state->step, *hash, loop.interrupt, leaver_has_waited(loop)) &&
      !loop.interrupt.raised())
    spdlog::warn("the service does not know yet that the job has ended: other workers tell it, from the checkpoint of step {}",
                 loop.session.state->step);
  return wait_until_told(loop);
}

RunStop fail_job(TrainLoop& loop, const RunStop& stop) {
  spdlog::error("the job cannot go on: {}", stop.reason);
  if (loop.ring.rank() == 0) loop.reporter.fail(loop.session.state->step, stop.reason, loop.interrupt, leaver_has_waited(loop));
  return wait_until_told(loop);
}

RankSet computing_now(const TrainLoop& loop) {
  return computing_ranks(loop.session.ownership, static_cast<size_t>(loop.ring.world_size()));
}

void tell_who_computes_now(TrainLoop& loop, const RankSet& before, const RankSet& now) {
  for (size_t rank = 0; rank < now.size() && loop.ring.rank() == 0; ++rank) {
    if (before[rank] || !now[rank]) continue;
    const auto text = fmt::format(
        "{} has the parameters that it computes with, and is dealt microbatches from step {} on",
        rank < loop.workers.size() ? fmt::format("{} (rank {})", loop.workers[rank], rank) : fmt::format("rank {}", rank),
        loop.session.state->step + 1);
    spdlog::info("{}", text);
    loop.outbox.event(loop.session.job, "newcomer_computes", text);
  }
}

void deal_next(TrainLoop& loop, LoadBalancer& balancer, StepShares& shares, const StepAgreement& agreed) {
  const Span phase(SpanKind::kPhase, "deal the next step");
  if (const RankSet computing = computing_now(loop); computing != balancer.computing()) {
    tell_who_computes_now(loop, balancer.computing(), computing);
    balancer = LoadBalancer(loop.session.spec.dealt_units(), computing);
    shares = balancer.shares();
    return;
  }
  const auto change = balancer.observe(shares, agreed.compute_us);
  shares = balancer.shares();
  if (!change.changed || loop.ring.rank() != 0) return;
  const auto text = in_words(change, loop.workers, loop.session.is_exact());
  spdlog::info("{}", text);
  loop.outbox.event(loop.session.job, change.slow.empty() ? "straggler_recovered" : "straggler", text);
}

// Parts of a divided state that ranks lack come to them after steps. A generation that ends anyway leaves them as they are.
RunResult<void> fill_some(TrainLoop& loop, Filling& filling, const rendezvous::StepPoint& point, bool ends) {
  if (filling.is_done() || ends) return {};
  if (auto filled = filling.fill_some(point.step_s); !filled) return filled;
  const auto world_size = static_cast<size_t>(loop.ring.world_size());
  if (loop.ring.rank() == 0) loop.reporter.divided(division_of(loop.session, world_size));
  return {};
}

RunStop run_steps(TrainLoop& loop) {
  Compared compared;
  be_patient(loop);  // the first step may be dealt very unevenly, and everything is cold
  LoadBalancer balancer(loop.session.spec.dealt_units(), computing_now(loop));
  Filling filling(loop.ring, loop.session, loop.filling);
  if (auto done = choose_first_exponents(loop); !done) return done.error();
  auto shares = agree_on_shares(loop);
  if (!shares) return shares.error();
  while (loop.session.state->step < loop.session.spec.total_steps) {
    ProfiledStep profiled(loop.profiler, loop.session.state->step + 1);
    if (auto done = choose_first_exponents(loop); !done) return done.error();
    TrainStep step(loop, *shares);
    if (auto done = step.accumulate(); !done) return done.error();
    const auto agreed = step.exchange();
    if (!agreed) return agreed.error();
    auto point = step.update(*agreed);
    if (!point) return point.error();
    if (auto done = step.confirm(*point); !done) return done.error();
    if (auto done = after_step(loop, *point, compared); !done) return done.error();
    if (auto done = fill_some(loop, filling, *point, agreed->yield); !done) return done.error();
    deal_next(loop, balancer, *shares, *agreed);
    profiled.completed();
    if (agreed->yield && loop.session.state->step < loop.session.spec.total_steps)
      return yield_after_step(loop, *agreed, compared);
  }
  return finish_job(loop, compared);
}

}  // namespace

RunStop TrainLoop::run() {
  RunStop stop = [this] {
    ParameterGathering of_this_generation(ring, session);
    gathering = &of_this_generation;
    return run_steps(*this);
  }();
  gathering = nullptr;
  return stop.why == RunStop::Why::kJobFailed ? fail_job(*this, stop) : stop;
}

}  // namespace holdfast::worker
