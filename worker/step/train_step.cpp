#include "worker/step/train_step.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "rendezvous/text/plural.h"
#include "worker/drills/fault_points.h"
#include "worker/gradients/loss_sum.h"
#include "worker/invariants/invariant.h"
#include "worker/profile/span.h"
#include "worker/state/catch_up.h"
#include "worker/state/divided/compute_copies.h"
#include "worker/state/divided/early_digests.h"
#include "worker/state/divided/norm.h"
#include "worker/step/compare_states.h"
#include "worker/step/step_start.h"

namespace holdfast::worker {

using rendezvous::StepPoint;

namespace {

// The sums of this rank hold exactly the microbatches that are dealt to it: with require_dealt_once(), which every rank asks of
// the same shares, each microbatch of the step is in the sums of exactly one rank.
void require_own_in_sums(const Session& session, const StepShares& shares, int rank, std::span<const int32_t> exponents) {
  const int64_t step = session.state->step;
  const Microbatches& own = shares.own[static_cast<size_t>(rank)];
  const auto summed = session.scattered ? session.scattered->microbatches() : session.kept_microbatches(exponents);
  must_hold(summed == own, [&] {
    return fmt::format("step {}: the sums of rank {} hold {} microbatches that are not the {} dealt to it", step + 1, rank,
                       summed.size(), own.size());
  });
}

}  // namespace

TrainStep::TrainStep(TrainLoop& loop, const StepShares& shares)
    : loop_(loop), shares_(shares), exponents_(exponents_of(loop.session)), lost_peers_(loop.on_lost_peer) {}

// Without a scale a tensor overflows, on every rank. Local steps all end at once, and the gradient buffer is still needed if
// a tensor overflows, because computing them again takes sync_every steps.
bool TrainStep::overlaps() const {
  const rendezvous::JobSpec& spec = loop_.session.spec;
  return spec.overlap == "on" && spec.sync_every == 1 && loop_.ring.world_size() > 1 && all_set(exponents_);
}

std::jthread TrainStep::watch_peers() {
  return loop_.ring.watch([this](const CollectiveError& error) { lost_peers_.tell(error); });
}

RunResult<void> TrainStep::accumulate() {
  const Span phase(SpanKind::kPhase, "accumulate");
  Session& session = loop_.session;
  const int64_t step = session.state->step;
  const int rank = loop_.ring.rank();
  session.lose_gradient();
  if (session.scattered) {
    auto scattered = scatter();
    if (scattered) require_own_in_sums(session, shares_, rank, exponents_);
    return scattered;
  }
  auto watch = watch_peers();
  fault_point("step", step, rank);
  GradientAccumulator::OnPacked on_packed;
  if (overlaps()) {
    reduction_ = std::make_unique<CollectiveQueue>(loop_.ring, lost_peers_);
    on_packed = [&](size_t range) {
      if (range == 0) {
        watch = std::jthread();  // no collective may be called while it lives
        reduction_->start();
      }
      const auto& order = session.model->gradient_order();
      const bool all = range == order.size();
      MeanGradient& mean = session.gradients->mean();
      all ? mean.begin_fetch_rows() : mean.begin_fetch(loop_.ring, order[range]);
      add_parts(all ? parts() : buckets_after(session.buckets, range + 1));
    };
  }
  try {
    local_ = session.gradients->accumulate(step, shares_.to_compute[static_cast<size_t>(rank)], exponents_, on_packed);
    compute_us_ = static_cast<int64_t>(clock_.step_s() * 1e6);
    require_own_in_sums(session, shares_, rank, exponents_);
  } catch (const model::Interrupted&) {
    reduction_.reset();  // before any other use of the gradients
    return tl::unexpected(interrupted(loop_.interrupt.reason()));
  }
  return {};
}

void TrainStep::add_parts(size_t count) {
  for (; parts_added_ < count; ++parts_added_)
    reduction_->add([this, part = parts_added_] { return reduce_part(part); }, "bucket", static_cast<int64_t>(parts_added_));
}

CollectiveResult<void> TrainStep::reduce_part(size_t part) {
  Session& session = loop_.session;
  if (part == 0) fault_point("allreduce", session.state->step, loop_.ring.rank());
  if (part == session.buckets.size()) return session.gradients->mean().reduce_rows(loop_.ring);
  return session.gradients->mean().reduce(loop_.ring, session.buckets[part].elements);
}

RunResult<void> TrainStep::finish_reduction() {
  if (!reduction_) return {};
  const Span span(SpanKind::kWait, "wait for the reduction");
  const auto reduced = clock_.communicating([&] { return reduction_->finish(); });
  if (reduced) return {};
  RunStop stop = ring_stop(reduced.error());
  stop.told = true;  // through on_lost_peer, when it happened
  return tl::unexpected(std::move(stop));
}

RunResult<StepAgreement> TrainStep::exchange() {
  const Span phase(SpanKind::kPhase, "exchange");
  if (auto finished = finish_reduction(); !finished) return tl::unexpected(finished.error());
  StepReport mine;
  mine.step = loop_.session.state->step;
  mine.yield = loop_.requests.yield;  // first: the thread that asks sets it last
  mine.checkpoint = loop_.requests.checkpoint;
  mine.leaving = loop_.requests.leaving;
  mine.finite = local_.finite;
  mine.loss = local_.loss;
  mine.tokens_digest = local_.tokens_digest;
  mine.acknowledged = loop_.reporter.acknowledged();
  mine.refused_in_row = loop_.session.refused_in_row;
  mine.compute_us = compute_us_;
  mine.maxima = local_.maxima;
  const auto gathered = clock_.communicating([&] { return loop_.ring.all_gather(encode(mine)); });
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<StepReport> reports;
  for (const auto& bytes : *gathered) {
    auto report = decode_step_report(bytes);
    if (!report) return tl::unexpected(fault("handshake_failed", report.error()));
    reports.push_back(std::move(*report));
  }
  auto agreed = agree(reports);
  if (!agreed) return tl::unexpected(differing_states(agreed.error(), loop_.ring.rank()));
  loop_.reporter.acknowledge(agreed->acknowledged);
  return std::move(*agreed);
}

RunResult<bool> TrainStep::repack_overflows(const StepAgreement& agreed) {
  Session& session = loop_.session;
  const auto chosen = session.rule().for_repack(exponents_, agreed.maxima);
  if (chosen.empty()) return false;
  std::vector<size_t> outgrown;  // at a job's first step there was nothing to outgrow
  for (size_t t = 0; t < chosen.size(); ++t) {
    if (chosen[t] != exponents_[t] && exponents_[t] != model::TrainState::kUnsetExponent) outgrown.push_back(t);
  }
  if (!outgrown.empty()) tell_repacked(outgrown);
  try {
    if (session.scattered) {
      const auto repacked = clock_.communicating([&] { return session.scattered->repack(loop_.ring, chosen); });
      if (!repacked) return tl::unexpected(ring_stop(repacked.error()));
    } else {
      session.gradients->repack(chosen);
    }
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted(loop_.interrupt.reason()));
  }
  exponents_ = chosen;
  return true;
}

// With 16 bits this happens often: an event is sent each time that the count has doubled.
void TrainStep::tell_repacked(std::span<const size_t> tensors) {
  constexpr size_t kNamed = 3;
  std::string names;
  for (const size_t t : tensors.first(std::min(kNamed, tensors.size()))) {
    names += (names.empty() ? "" : ", ") + loop_.session.model->table().entries[t].name;
  }
  const auto text = fmt::format("step {}: the gradients of {} ({}{}) outgrew their fixed-point scale and were packed again",
                                loop_.session.state->step + 1, rendezvous::counted(tensors.size(), "tensor"), names,
                                tensors.size() > kNamed ? ", ..." : "");
  spdlog::debug("{}", text);
  const auto steps = static_cast<uint64_t>(++loop_.session.repacked_steps);
  if (loop_.ring.rank() != 0 || !std::has_single_bit(steps)) return;
  const auto so_far =
      fmt::format("{}; so far {} {} like this", text, rendezvous::counted(steps, "step"), steps == 1 ? "was" : "were");
  spdlog::info("{}", so_far);
  loop_.outbox.event(loop_.session.job, "gradients_repacked", so_far);
}

RunResult<void> TrainStep::reduce(const StepAgreement& agreed) {
  if (loop_.session.scattered) {
    if (const auto repacked = repack_overflows(agreed); !repacked) return tl::unexpected(repacked.error());
    loop_.session.scattered->unpack();
    return {};
  }
  GradientAccumulator& gradients = *loop_.session.gradients;
  bool reduced = reduction_ != nullptr;
  if (gradients.exact()) {
    const auto repacked = repack_overflows(agreed);
    if (!repacked) return tl::unexpected(repacked.error());
    reduced = reduced && !*repacked;
  }
  const bool alone = loop_.ring.world_size() == 1;
  if (alone) fault_point("allreduce", loop_.session.state->step, loop_.ring.rank());
  if (!alone && !reduced) {
    if (gradients.exact()) gradients.move_rows_to_sums();
    const auto summed = clock_.communicating([&] { return reduce_all(); });
    if (!summed) return tl::unexpected(ring_stop(summed.error()));
  }
  gradients.mean().unpack(exponents_, alone);
  return {};
}

// Bucket by bucket, as with overlap: the places at which a sum of floats is cut into segments decide the order of its
// additions.
CollectiveResult<void> TrainStep::reduce_all() {
  for (size_t part = 0; part < parts(); ++part) {
    const Span span(SpanKind::kBucket, "bucket", static_cast<int64_t>(part));
    if (auto reduced = reduce_part(part); !reduced) return reduced;
  }
  return {};
}

// While the loss scale is above 1, it may be the reason for a gradient that is not finite: then that is no fault, and does
// not count as one.
void TrainStep::lower_loss_scale(const StepAgreement& agreed) {
  Session& session = loop_.session;
  const int64_t scale = int64_t{1} << session.state->loss_scale_log2();
  apply_nothing(session, agreed.refused_in_row);
  if (loop_.ring.rank() != 0) return;
  const auto text = fmt::format(
      "step {} is left out: its loss or gradient is not finite. The loss scale {} was too large for float16 and is now {}; "
      "parameters stay as they are on all ranks",
      session.state->step, scale, scale / 2);
  spdlog::info("{}", text);
  loop_.outbox.event(session.job, "loss_scale_lowered", text);
}

RunResult<void> TrainStep::refuse(const StepAgreement& agreed) {
  Session& session = loop_.session;
  if (session.state->loss_scale_log2() > 0) {
    lower_loss_scale(agreed);
    return {};
  }
  const int64_t in_row = agreed.refused_in_row + 1, step = session.state->step + 1;
  if (in_row >= session.spec.max_refused_steps) {
    return tl::unexpected(job_failed(
        fmt::format("the loss or gradient was not finite in {} (max_refused_steps is {}): lower learning_rate, raise "
                    "warmup_steps, or look at the data of these steps",
                    in_row == 1 ? fmt::format("step {}", step)
                                : fmt::format("{} steps in a row, {} to {}", in_row, step - in_row + 1, step),
                    session.spec.max_refused_steps)));
  }
  apply_nothing(session, in_row);
  if (loop_.ring.rank() == 0) {
    const auto text = fmt::format(
        "step {} is left out: its loss or gradient is not finite. Parameters stay as they are on all "
        "ranks; {} in a row so far, {} end the job",
        step, in_row, session.spec.max_refused_steps);
    spdlog::warn("{}", text);
    loop_.outbox.event(session.job, "step_refused", text);
  }
  return {};
}

RunResult<double> TrainStep::apply(const StepAgreement& agreed) {
  Session& session = loop_.session;
  auto next = session.is_exact() ? session.rule().for_next_step(exponents_, agreed.maxima) : std::vector<int32_t>();
  if (!session.is_divided()) return apply_gradient(session, next);
  session.summed = {session.state->step + 1, std::move(next)};
  fault_point("norm", session.state->step, loop_.ring.rank());
  const auto norm = clock_.communicating([&] { return norm_of_all(loop_.ring, session); });
  if (!norm) return tl::unexpected(ring_stop(norm.error()));
  apply_to_own(session, *norm);
  return *norm;
}

RunResult<StepPoint> TrainStep::update(const StepAgreement& agreed) {
  const Span phase(SpanKind::kPhase, "update");
  Session& session = loop_.session;
  const int64_t before = session.state->step;
  require_dealt_once(shares_, session.spec.dealt_units(), before);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  StepPoint point;
  point.learning_rate = model::learning_rate_at(optimizer_config(session.spec), session.state->step * session.spec.sync_every);
  point.gradient_norm = point.loss = kNone;
  if (agreed.finite) {
    if (auto reduced = reduce(agreed); !reduced) return tl::unexpected(reduced.error());
    const auto norm = apply(agreed);
    if (!norm) return tl::unexpected(norm.error());
    point.gradient_norm = *norm;
    if (std::isfinite(point.gradient_norm) && session.gradients) session.gradients->mean().step_applied();
    point.loss = loss_from_fixed(agreed.loss, session.spec.dealt_units());
  }
  point.refused = !std::isfinite(point.gradient_norm);
  if (point.refused) {
    if (auto refused = refuse(agreed); !refused) return tl::unexpected(refused.error());
  }
  must_hold(session.state->step == before + 1, [&] {
    return fmt::format("step {} follows step {}: a step of the job is one step of the state, applied or left out",
                       session.state->step, before);
  });
  point.step = session.state->step;
  verdict_ = {point.step, agreed.tokens_digest, point.refused};
  is_last_ = agreed.yield && point.step < session.spec.total_steps;
  point.tokens = session.spec.tokens_per_step();
  point.tokens_digest = fmt::format("{:016x}", agreed.tokens_digest);
  point.shares = for_ledger(shares_, session.spec.microbatches_per_dealt_unit());
  fault_point("commit", point.step, loop_.ring.rank());
  return point;
}

void TrainStep::keep_unconfirmed(const StepPoint& point) {
  loop_.reporter.end();
  loop_.reporter.committed(point);
  if (loop_.tensorboard != nullptr) loop_.tensorboard->add(point);
}

RunResult<void> TrainStep::share() {
  if (!loop_.session.is_divided() || verdict_.refused) return {};
  std::optional<EarlyDigests> beside;
  if (is_last_) beside.emplace(loop_.session);
  return clock_.communicating([&] { return share_copies(loop_.ring, loop_.session); });
}

RunResult<void> TrainStep::confirm(StepPoint& point) {
  const Span phase(SpanKind::kPhase, "confirm");
  if (auto shared = share(); !shared) {
    keep_unconfirmed(point);
    return shared;
  }
  const auto confirmed = clock_.communicating([&] { return loop_.ring.all_gather(encode(verdict_)); });
  point.step_s = clock_.step_s();
  point.communication_s = clock_.communication_s();
  if (!confirmed) {
    keep_unconfirmed(point);
    return tl::unexpected(ring_stop(confirmed.error()));
  }
  if (const auto found = compare_verdicts(*confirmed)) {
    RunStop stop = differing_states(*found, loop_.ring.rank());
    if (!stop.state_is_wrong) keep_unconfirmed(point);
    return tl::unexpected(std::move(stop));
  }
  Patience& patience = loop_.session.patience;
  patience.step_took(std::chrono::milliseconds(static_cast<int64_t>(point.step_s * 1000)));
  loop_.ring.set_patience(patience.limit(), patience.question(), loop_.on_quiet);
  fault_point("confirmed", point.step, loop_.ring.rank());
  return {};
}

}  // namespace holdfast::worker
