#include "rendezvous/plan/measured.h"

#include <algorithm>
#include <vector>

namespace holdfast::rendezvous {
namespace {

// 0 for none; of an even number the upper one.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::span<const StepTime> but_the_first(std::span<const StepTime> steps) {
  return steps.subspan(std::min<size_t>(1, steps.size()));
}

}  // namespace

double microbatch_seconds(std::span<const StepTime> steps) {
  std::vector<double> all;
  for (const StepTime& step : but_the_first(steps)) {
    const double computing = step.step_s - step.communication_s;
    if (step.microbatches > 0 && computing > 0) all.push_back(computing / static_cast<double>(step.microbatches));
  }
  return median(std::move(all));
}

double link_rate(std::span<const StepTime> steps, const PlanInputs& job) {
  if (overlaps(job)) return 0;
  PlanInputs inputs = job;
  inputs.workers = 0;
  inputs.link_bytes_per_s = 1;  // seconds on the link are bytes then
  PlanFigures figures{};
  std::vector<double> all;
  for (const StepTime& step : but_the_first(steps)) {
    if (step.nodes < 2) continue;
    if (step.nodes != inputs.workers) {
      inputs.workers = step.nodes;
      figures = figures_of(inputs);
    }
    const double sending = step.communication_s - figures.latency_s;
    if (sending > 0) all.push_back((figures.link_s + figures.row_s) / sending);
  }
  return median(std::move(all));
}

}  // namespace holdfast::rendezvous
