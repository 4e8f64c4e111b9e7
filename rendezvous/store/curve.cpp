#include "rendezvous/store/curve.h"

#include <algorithm>
#include <cmath>

namespace holdfast::rendezvous {
namespace {

// The mean of both, each weighted by its number of steps; a mean of no steps says nothing.
double mean(double a, int64_t steps_a, double b, int64_t steps_b) {
  if (steps_b == 0) return a;
  if (steps_a == 0) return b;
  return a + (b - a) * static_cast<double>(steps_b) / static_cast<double>(steps_a + steps_b);
}

}  // namespace

CurvePoint curve_point(const StepRow& row) {
  const StepPoint& p = row.point;
  CurvePoint point;
  point.first_step = point.last_step = p.step;
  point.steps = 1;
  point.time_ms = row.time_ms;
  point.generation = row.generation;
  point.world_size = row.world_size;
  point.loss = point.loss_min = point.loss_max = p.loss;
  point.loss_steps = std::isfinite(p.loss) ? 1 : 0;
  point.gradient_norm = p.gradient_norm;
  point.gradient_steps = std::isfinite(p.gradient_norm) ? 1 : 0;
  point.validation_loss = p.validation_loss;
  point.learning_rate = p.learning_rate;
  point.tokens = p.tokens;
  point.step_s = p.step_s;
  point.communication_s = p.communication_s;
  return point;
}

void join(CurvePoint& point, const CurvePoint& next) {
  const bool first = point.loss_steps == 0;
  if (next.loss_steps > 0 || first) {
    point.loss_min = first ? next.loss_min : std::min(point.loss_min, next.loss_min);
    point.loss_max = first ? next.loss_max : std::max(point.loss_max, next.loss_max);
  }
  point.loss = first && next.loss_steps == 0 ? next.loss : mean(point.loss, point.loss_steps, next.loss, next.loss_steps);
  point.loss_steps += next.loss_steps;
  point.gradient_norm = mean(point.gradient_norm, point.gradient_steps, next.gradient_norm, next.gradient_steps);
  point.gradient_steps += next.gradient_steps;
  point.last_step = next.last_step;
  point.steps += next.steps;
  point.time_ms = next.time_ms;
  point.generation = next.generation;
  point.world_size = next.world_size;
  if (next.validation_loss) point.validation_loss = next.validation_loss;
  point.learning_rate = next.learning_rate;
  point.tokens += next.tokens;
  point.step_s += next.step_s;
  point.communication_s += next.communication_s;
}

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, int64_t at_most) {
  if (static_cast<int64_t>(points.size()) <= at_most) return points;
  const int64_t first = points.front().first_step;
  const auto span = static_cast<double>(points.back().last_step - first + 1);
  std::vector<CurvePoint> fewer;
  int64_t part = -1;
  for (const CurvePoint& point : points) {
    const auto here = static_cast<int64_t>(static_cast<double>(point.first_step - first) / span * static_cast<double>(at_most));
    if (here == part) {
      join(fewer.back(), point);
    } else {
      fewer.push_back(point);
    }
    part = here;
  }
  return fewer;
}

}  // namespace holdfast::rendezvous
