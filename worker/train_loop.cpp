#include "worker/train_loop.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "worker/dealer.h"
#include "worker/evaluation.h"
#include "worker/train_step.h"

namespace holdfast::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A worker that leaves does not wait longer than this for a service that is away.
constexpr seconds kLeaverPatience{20};

bool due(int64_t step, int64_t every) {
  return every > 0 && step % every == 0;
}

// What is done now and then after a step. The step is reported first where nothing of this belongs to its report.
RunResult<void> after_step(TrainLoop& loop, rendezvous::StepPoint point, HashNote& hash) {
  Session& session = loop.session;
  RunResult<void> result;
  if (evaluation_due(session)) {
    const auto loss = evaluate(session, loop.ring);
    if (loss) point.validation_loss = *loss;
    if (!loss) result = tl::unexpected(loss.error());
  }
  const int64_t step = point.step;
  loop.reporter.committed(std::move(point));
  loop.on_commit(step);
  if (loop.ring.rank() == 0 && due(step, session.spec.checkpoint_every) && step < session.spec.total_steps) {
    loop.checkpoints.start(session);
  }
  const int64_t hash_every = session.spec.hash_every > 0 ? session.spec.hash_every : session.spec.checkpoint_every;
  if (due(step, hash_every)) {
    hash = {step, session.state->hash()};
    if (loop.ring.rank() == 0) loop.reporter.hashed(step, hash.hash);
  }
  return result;
}

RunStop yield_after_step(TrainLoop& loop, const StepAgreement& agreed) {
  if (loop.ring.rank() == 0 && (agreed.checkpoint || agreed.all_leaving)) {
    const auto patience = agreed.all_leaving ? std::optional(kLeaverPatience) : std::nullopt;
    const auto written = loop.checkpoints.write_now(loop.session, loop.interrupt, patience);
    if (!written) spdlog::warn("stopping without a registered checkpoint: {}", written.error().reason);
  }
  return {.why = RunStop::Why::kYielded};
}

// The generation is over when the service says so; until then this worker is part of it.
RunStop wait_until_told(TrainLoop& loop) {
  while (!loop.interrupt.wait_for(milliseconds(20))) {
    if (loop.requests.yield || loop.requests.leaving) return {.why = RunStop::Why::kYielded};
  }
  return interrupted(loop.interrupt.reason());
}

RunStop finish_job(TrainLoop& loop) {
  if (loop.ring.rank() == 0) {
    const auto hash = loop.checkpoints.write_now(loop.session, loop.interrupt);
    if (!hash && hash.error().why == RunStop::Why::kJobFailed) return hash.error();
    if (!hash || !loop.reporter.finish(loop.session.state->step, *hash, loop.interrupt))
      return interrupted(loop.interrupt.reason());
  }
  return wait_until_told(loop);
}

RunStop fail_job(TrainLoop& loop, const RunStop& stop) {
  spdlog::error("the job cannot go on: {}", stop.reason);
  if (loop.ring.rank() == 0) loop.reporter.fail(loop.session.state->step, stop.reason, loop.interrupt);
  return wait_until_told(loop);
}

void deal_next(TrainLoop& loop, Dealer& dealer, StepShares& shares, const StepAgreement& agreed) {
  const auto change = dealer.observe(shares, agreed.compute_us);
  shares = dealer.shares();
  if (!change.changed || loop.ring.rank() != 0) return;
  const auto text = in_words(change, loop.workers);
  spdlog::info("{}", text);
  loop.outbox.event(loop.session.job, change.slow.empty() ? "straggler_recovered" : "straggler", text);
}

RunStop run_steps(TrainLoop& loop) {
  HashNote hash;
  const Patience& patience = loop.session.patience;
  loop.ring.set_patience(patience.limit(), patience.question(), loop.on_quiet);
  Dealer dealer(loop.session.spec.microbatches(), loop.ring.world_size());
  auto shares = agree_on_shares(loop);
  if (!shares) return shares.error();
  while (loop.session.state->step < loop.session.spec.total_steps) {
    TrainStep step(loop, hash, *shares);
    if (auto done = step.accumulate(); !done) return done.error();
    const auto agreed = step.exchange();
    if (!agreed) return agreed.error();
    auto point = step.update(*agreed);
    if (!point) return point.error();
    if (auto done = step.confirm(*point); !done) return done.error();
    if (auto done = after_step(loop, *point, hash); !done) return done.error();
    deal_next(loop, dealer, *shares, *agreed);
    if (agreed->yield && loop.session.state->step < loop.session.spec.total_steps) return yield_after_step(loop, *agreed);
  }
  return finish_job(loop);
}

}  // namespace

RunStop TrainLoop::run() {
  RunStop stop = run_steps(*this);
  return stop.why == RunStop::Why::kJobFailed ? fail_job(*this, stop) : stop;
}

}  // namespace holdfast::worker
