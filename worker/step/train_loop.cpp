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
#include "worker/step/step_checkpoints.h"
#include "worker/step/step_start.h"
#include "worker/step/train_step.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A service that is there tells all members to yield within this.
constexpr seconds kToldWithin{5};

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

RunResult<void> evaluate_now(TrainLoop& loop, rendezvous::StepPoint& point) {
  loop.be_patient();
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
  loop.be_patient();  // the one that leaves is there at once, and while the service is away the others wait
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
    return std::chrono::steady_clock::now() - *since > TrainLoop::kLeaverPatience;
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
  loop.be_patient();  // the first step may be dealt very unevenly, and everything is cold
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

void TrainLoop::be_patient() {
  const Patience& patience = session.patience;
  ring.set_patience(patience.ceiling(), patience.question(), on_quiet);
}

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
