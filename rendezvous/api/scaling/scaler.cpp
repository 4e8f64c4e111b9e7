#include "rendezvous/api/scaling/scaler.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

std::string in_words(const Demand& demand) {
  std::string text;
  if (demand.missing > 0) text = fmt::format("jobs wait for {}", counted(demand.missing, "worker"));
  if (!demand.idle.empty()) {
    text += fmt::format("{}{} no job: {}", text.empty() ? "" : ", and ",
                        counted(static_cast<int64_t>(demand.idle.size()), "worker has", "workers have"),
                        fmt::join(demand.idle, ", "));
  }
  return text;
}

}  // namespace

Scaler::Scaler(Turn& turn, ScaleHook hook) : turn_(turn), hook_(std::move(hook)), pool_(wanted() ? 1 : 0, 1) {}

void Scaler::tend() {
  if (!wanted()) return;
  const Millis now = turn_.clock.steady_ms();
  watch_.look(turn_.state, now);
  demand_ = watch_.demand(turn_.state, now, hook_.idle_for.count());
  if (!demand_.any()) told_ = {};
  if (calling_ || !demand_.any() || (called_ms_ && now - *called_ms_ < hook_.every.count())) return;
  called_ms_ = now;
  call();
}

void Scaler::call() {
  if (demand_ != told_)
    turn_.state.journal().record({"scale_hook_called", fmt::format("{} is called: {}", hook_.program, in_words(demand_))});
  told_ = demand_;
  const std::string input = watch_.in_full(turn_.state, turn_.clock.steady_ms(), hook_.idle_for.count()).dump() + "\n";
  const auto tell = [this](const HookOutcome& outcome) { turn_.commands->add_result([this, outcome] { record(outcome); }); };
  calling_ = pool_.post([this, tell, input] { tell(run_hook(hook_.program, input, hook_.patience, cancelled_)); },
                        [tell](const std::string& why) {
                          tell({why, ""});
                        });
}

void Scaler::record(const HookOutcome& outcome) {
  calling_ = false;
  ++(outcome.failure.empty() ? counts_.well : counts_.failed);
  if (outcome.failure == trouble_) return;
  if (outcome.failure.empty()) {
    turn_.state.journal().record({"scale_hook_recovered", fmt::format("{} works again", hook_.program)});
  } else {
    turn_.state.journal().record(
        {"scale_hook_failed", fmt::format("{} {}; it is called again in {} s while there is reason to", hook_.program,
                                          outcome.failure, hook_.every.count() / 1000)});
  }
  trouble_ = outcome.failure;
}

}  // namespace holdfast::rendezvous
