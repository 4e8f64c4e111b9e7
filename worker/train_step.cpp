#include "worker/train_step.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "worker/fault_points.h"
#include "worker/step_catch_up.h"

namespace holdfast::worker {

using rendezvous::StepPoint;

namespace {

bool all_set(std::span<const int32_t> exponents) {
  return std::ranges::find(exponents, model::TrainState::kUnsetExponent) == exponents.end();
}

// This step's, one per tensor; empty for the float reduction.
std::vector<int32_t> exponents_of(Session& session) {
  if (!session.gradients->exact()) return {};
  const auto exponents = session.state->exponents();
  if (!all_set(exponents) && session.first_exponents_of == session.state->step) return session.first_exponents;
  return {exponents.begin(), exponents.end()};
}

// Where most ranks agree, theirs is the state, and the others' is wrong; else nobody's is trusted.
RunStop differing_states(const Disagreement& found, int rank) {
  if (found.odd.empty()) return state_mismatch(found.text);
  const bool wrong = std::ranges::find(found.odd, rank) != found.odd.end();
  RunStop stop = fault("state_diverged", found.text, wrong ? rank : found.odd.front());
  stop.state_is_wrong = wrong;
  return stop;
}

}  // namespace

RunResult<std::string> compare_states(TrainLoop& loop) {
  const std::string mine = loop.session.state->hash();
  const auto gathered = loop.ring.all_gather(std::as_bytes(std::span(mine)));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<std::string> hashes;
  for (const auto& bytes : *gathered) hashes.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto found = compare_hashes(loop.session.state->step, hashes))
    return tl::unexpected(differing_states(*found, loop.ring.rank()));
  return mine;
}

RunResult<void> choose_first_exponents(TrainLoop& loop) {
  Session& session = loop.session;
  const int64_t step = session.state->step;
  if (!session.gradients->exact() || session.spec.sync_every > 1 || all_set(session.state->exponents())) return {};
  if (session.first_exponents_of == step) return {};
  session.applied_step = -1;
  LossTeller losses(loop.on_loss);
  const auto watch = loop.ring.watch([&](const CollectiveError& error) { losses.tell(error); });
  try {
    session.first_exponents = session.gradients->first_exponents(step);
    session.first_exponents_of = step;
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted(loop.interrupt.reason()));
  }
  return {};
}

RunResult<StepShares> agree_on_shares(TrainLoop& loop) {
  Session& session = loop.session;
  const int64_t microbatches = session.spec.units();
  const auto mine = session.gradients->kept(session.state->step, exponents_of(session));
  const auto gathered = loop.ring.all_gather(encode_kept(mine));
  if (!gathered) return tl::unexpected(ring_stop(gathered.error()));
  std::vector<Microbatches> kept;
  for (const auto& bytes : *gathered) {
    auto list = decode_kept(bytes, microbatches);
    if (!list) return tl::unexpected(fault("handshake_failed", list.error()));
    kept.push_back(std::move(*list));
  }
  StepShares shares = deal_rest(microbatches, kept);
  if (!shares.keeps[static_cast<size_t>(loop.ring.rank())]) session.gradients->forget();
  if (shares.kept > 0 && loop.ring.rank() == 0) {
    const auto text = fmt::format("step {}: {} of {} {} are kept, {} {} computed", session.state->step + 1, shares.kept,
                                  microbatches, session.spec.sync_every > 1 ? "replicas' local steps" : "microbatches",
                                  microbatches - shares.kept, microbatches - shares.kept == 1 ? "is" : "are");
    spdlog::info("{}", text);
    loop.outbox.event(session.job, "microbatches_kept", text);
  }
  return shares;
}

TrainStep::TrainStep(TrainLoop& loop, const StepShares& shares)
    : loop_(loop), shares_(shares), exponents_(exponents_of(loop.session)), losses_(loop.on_loss) {}

// Where a tensor has no scale yet it overflows, on every rank. Local steps end all at once, and their gradient buffer is needed
// if a tensor overflows: to compute them again takes sync_every steps.
bool TrainStep::overlaps() const {
  const rendezvous::JobSpec& spec = loop_.session.spec;
  return spec.overlap == "on" && spec.sync_every == 1 && loop_.ring.world_size() > 1 && all_set(exponents_);
}

RunResult<void> TrainStep::accumulate() {
  Session& session = loop_.session;
  const int64_t step = session.state->step;
  const int rank = loop_.ring.rank();
  session.applied_step = -1;
  auto watch = loop_.ring.watch([this](const CollectiveError& error) { losses_.tell(error); });
  fault_point("step", step, rank);
  GradientAccumulator::OnPacked on_packed;
  if (overlaps()) {
    reduction_ = std::make_unique<OverlappedReduction>(
        loop_.ring, parts(), [this](size_t part) { return reduce_part(part); }, losses_);
    on_packed = [&](size_t range) {
      if (range == 0) {
        watch = std::jthread();  // no collective may be called while it lives
        reduction_->start();
      }
      const bool all = range == session.model->gradient_order().size();
      reduction_->ready(all ? parts() : buckets_after(session.buckets, range + 1));
    };
  }
  try {
    local_ = session.gradients->accumulate(step, shares_.to_compute[static_cast<size_t>(rank)], exponents_, on_packed);
    compute_us_ = static_cast<int64_t>(clock_.step_s() * 1e6);
  } catch (const model::Interrupted&) {
    reduction_.reset();  // before anything else of the gradients is touched
    return tl::unexpected(interrupted(loop_.interrupt.reason()));
  }
  return {};
}

CollectiveResult<void> TrainStep::reduce_part(size_t part) {
  Session& session = loop_.session;
  if (part == 0) fault_point("allreduce", session.state->step, loop_.ring.rank());
  if (part == session.buckets.size()) return session.gradients->reduce_rows(loop_.ring);
  return session.gradients->reduce(loop_.ring, session.buckets[part].elements);
}

RunResult<void> TrainStep::finish_reduction() {
  if (!reduction_) return {};
  const auto reduced = clock_.communicating([&] { return reduction_->finish(); });
  if (reduced) return {};
  RunStop stop = ring_stop(reduced.error());
  stop.told = true;  // through on_loss, when it happened
  return tl::unexpected(std::move(stop));
}

RunResult<StepAgreement> TrainStep::exchange() {
  if (auto finished = finish_reduction(); !finished) return tl::unexpected(finished.error());
  StepReport mine;
  mine.step = loop_.session.state->step;
  mine.yield = loop_.requests.yield;  // first: whoever asks sets it last
  mine.checkpoint = loop_.requests.checkpoint;
  mine.leaving = loop_.requests.leaving;
  mine.finite = local_.finite;
  mine.loss = local_.loss;
  mine.data_digest = local_.data_digest;
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
  GradientAccumulator& gradients = *loop_.session.gradients;
  const auto chosen = gradients.repack_exponents(exponents_, agreed.maxima);
  if (chosen.empty()) return false;
  std::vector<size_t> outgrown;  // at a job's first step there was nothing to outgrow
  for (size_t t = 0; t < chosen.size(); ++t) {
    if (chosen[t] != exponents_[t] && exponents_[t] != model::TrainState::kUnsetExponent) outgrown.push_back(t);
  }
  if (!outgrown.empty()) tell_repacked(outgrown);
  try {
    gradients.repack(chosen);
  } catch (const model::Interrupted&) {
    return tl::unexpected(interrupted(loop_.interrupt.reason()));
  }
  exponents_ = chosen;
  return true;
}

// Often so in 16 bits: people see each doubling of how often.
void TrainStep::tell_repacked(std::span<const size_t> tensors) {
  constexpr size_t kNamed = 3;
  std::string names;
  for (const size_t t : tensors.first(std::min(kNamed, tensors.size()))) {
    names += (names.empty() ? "" : ", ") + loop_.session.model->table().entries[t].name;
  }
  const auto text =
      fmt::format("step {}: the gradients of {} tensor{} ({}{}) outgrew their fixed-point scale and were packed again",
                  loop_.session.state->step + 1, tensors.size(), tensors.size() == 1 ? "" : "s", names,
                  tensors.size() > kNamed ? ", ..." : "");
  spdlog::debug("{}", text);
  const auto steps = static_cast<uint64_t>(++loop_.session.repacked_steps);
  if (loop_.ring.rank() != 0 || !std::has_single_bit(steps)) return;
  const auto so_far = fmt::format("{}; so far {} {} like this", text, steps, steps == 1 ? "step was" : "steps were");
  spdlog::info("{}", so_far);
  loop_.outbox.event(loop_.session.job, "gradients_repacked", so_far);
}

RunResult<void> TrainStep::reduce(const StepAgreement& agreed) {
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
  gradients.unpack(exponents_, alone);
  return {};
}

// Bucket by bucket, as with overlap: where a sum of floats is cut into segments decides the order in which it is taken.
CollectiveResult<void> TrainStep::reduce_all() {
  for (size_t part = 0; part < parts(); ++part) {
    if (auto reduced = reduce_part(part); !reduced) return reduced;
  }
  return {};
}

// A gradient that is not finite may be the scale's doing, as long as that is above 1: then it is no fault, and counts as none.
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

RunResult<StepPoint> TrainStep::update(const StepAgreement& agreed) {
  Session& session = loop_.session;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  StepPoint point;
  point.learning_rate = model::learning_rate_at(optimizer_config(session.spec), session.state->step * session.spec.sync_every);
  point.gradient_norm = point.loss = kNone;
  if (agreed.finite) {
    if (auto reduced = reduce(agreed); !reduced) return tl::unexpected(reduced.error());
    GradientAccumulator& gradients = *session.gradients;
    point.gradient_norm = apply_gradient(
        session, gradients.exact() ? gradients.next_exponents(exponents_, agreed.maxima) : std::vector<int32_t>());
    if (std::isfinite(point.gradient_norm)) gradients.step_applied();
    point.loss = loss_from_fixed(agreed.loss, session.spec.units());
  }
  point.refused = !std::isfinite(point.gradient_norm);
  if (point.refused) {
    if (auto refused = refuse(agreed); !refused) return tl::unexpected(refused.error());
  }
  point.step = session.state->step;
  point.tokens = session.spec.tokens_per_step();
  point.data_digest = fmt::format("{:016x}", agreed.data_digest);
  point.shares = for_ledger(shares_, session.spec.microbatches_of_unit());
  fault_point("commit", point.step, loop_.ring.rank());
  return point;
}

RunResult<void> TrainStep::confirm(StepPoint& point) {
  const auto confirmed = clock_.communicating([&] { return loop_.ring.all_gather({}); });
  point.step_s = clock_.step_s();
  point.communication_s = clock_.communication_s();
  if (!confirmed) {
    loop_.reporter.end();
    loop_.reporter.committed(point);
    if (loop_.tensorboard != nullptr) loop_.tensorboard->add(point);
    return tl::unexpected(ring_stop(confirmed.error()));
  }
  Patience& patience = loop_.session.patience;
  patience.step_took(std::chrono::milliseconds(static_cast<int64_t>(point.step_s * 1000)));
  loop_.ring.set_patience(patience.limit(), patience.question(), loop_.on_quiet);
  fault_point("confirmed", point.step, loop_.ring.rank());
  return {};
}

}  // namespace holdfast::worker
