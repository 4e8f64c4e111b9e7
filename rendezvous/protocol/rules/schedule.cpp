#include "rendezvous/protocol/rules/schedule.h"

#include <fmt/format.h>

namespace holdfast::rendezvous {

using Errors = std::vector<FieldError>;

void check_length(const JobSpec& spec, Errors& errors) {
  if (spec.epochs == 0 || spec.total_steps == 0) return;
  errors.push_back({"epochs", fmt::format("{} is given together with total_steps {}, and both say how long to train: leave one "
                                          "out",
                                          spec.epochs, spec.total_steps)});
}

void check_warmup(const JobSpec& spec, Errors& errors) {
  const int64_t most = spec.total_steps - spec.schedule_start;
  if (spec.total_steps == 0 || most < 0 || spec.warmup_steps <= most) return;
  errors.push_back({"warmup_steps", spec.schedule_start == 0
                                        ? fmt::format("{} is above total_steps {}: choose at most {}", spec.warmup_steps,
                                                      spec.total_steps, most)
                                        : fmt::format("{} is above the {} steps from schedule_start to total_steps: choose at "
                                                      "most that",
                                                      spec.warmup_steps, most)});
}

void check_min_lr(const JobSpec& spec, Errors& errors) {
  if (spec.min_lr <= spec.learning_rate) return;
  errors.push_back({"min_lr", fmt::format("{} is above learning_rate {}: choose at most that, or leave it out", spec.min_lr,
                                          spec.learning_rate)});
}

void check_schedule(const JobSpec& spec, Errors& errors) {
  if (spec.decay_steps == 0) return;
  if (spec.lr_schedule == "constant") {
    errors.push_back({"decay_steps", "has no meaning with lr_schedule constant, which never falls: leave it out"});
    return;
  }
  const int64_t most = spec.total_steps - spec.schedule_start - spec.warmup_steps;
  if (spec.total_steps == 0 || most < 0 || spec.decay_steps <= most) return;
  errors.push_back(
      {"decay_steps", fmt::format("{} is above the {} steps that are left after the warm-up (total_steps {}): choose "
                                  "at most that",
                                  spec.decay_steps, most, spec.total_steps)});
}

void check_schedule_start(const JobSpec& spec, Errors& errors) {
  if (spec.schedule_start == 0) return;
  if (spec.resume_from.empty()) {
    errors.push_back({"schedule_start", fmt::format("{} is for a job that goes on from a checkpoint: give resume_from, too, or "
                                                    "leave it out",
                                                    spec.schedule_start)});
  } else if (spec.total_steps > 0 && spec.schedule_start >= spec.total_steps) {
    errors.push_back({"schedule_start", fmt::format("{} is not below total_steps {}: the job would end before its rate goes "
                                                    "anywhere; raise total_steps",
                                                    spec.schedule_start, spec.total_steps)});
  }
}

std::string beyond_in_words(int64_t schedule_start, const std::string& source, int64_t step) {
  return fmt::format("{} is beyond {}, which the job goes on from: its rate would stay at min_lr until then; give {}",
                     schedule_start, source, step);
}

std::string unfit_length(const JobSpec& spec, int64_t total_steps, int64_t first_step) {
  if (spec.epochs == 0 || total_steps == 0) return "";
  const std::string length = fmt::format("epochs {} is {} steps of this data", spec.epochs, total_steps);
  if (first_step > total_steps) return fmt::format("{}, and the job goes on from step {}: raise epochs", length, first_step);
  if (spec.schedule_start >= total_steps)
    return fmt::format("{}, and schedule_start {} is not below that: raise epochs", length, spec.schedule_start);
  return "";
}

std::string cut_schedule(const JobSpec& spec, int64_t data_tokens) {
  const JobSpec resolved = spec.with_steps_over(data_tokens);
  const int64_t most = resolved.total_steps - spec.schedule_start;
  if (spec.epochs == 0 || resolved.total_steps == 0) return "";
  const std::string length = fmt::format("epochs {} is {} steps of this data", spec.epochs, resolved.total_steps);
  if (spec.warmup_steps > most)
    return fmt::format("{}: the warm-up of {} steps is cut to {}, and the rate never falls", length, spec.warmup_steps, most);
  const int64_t after = most - resolved.warmup_steps;
  if (spec.decay_steps <= after) return "";
  return fmt::format("{}: the rate falls over the {} steps that are left after the warm-up, and not over {} (decay_steps)",
                     length, after, spec.decay_steps);
}

}  // namespace holdfast::rendezvous
