// A training curve as points that each stand for one step or for a stretch of them.
//
// Promises: pure; joining points in any grouping gives the same means (but for rounding), smallest and largest losses. Losses
// and gradient norms that are not finite are counted and left out of means; where none is finite the mean is not either.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

CurvePoint curve_point(const StepRow& row);
// `next` comes after `point`, which stands for both then.
void join(CurvePoint& point, const CurvePoint& next);
// At most so many points, in steps evenly far apart; a point is never cut. The input is ascending and without overlaps.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, int64_t at_most);

}  // namespace holdfast::rendezvous
