// The costs of a step: how long the train thread's phases take, and each kind of span by itself, on each thread.
//
// Promises: pure. Of a rank that dropped spans, its costs are those of the steps before it did, where there is one.
#pragma once

#include <set>

#include "rendezvous/profile/merged.h"

namespace holdfast::rendezvous {

// Fills step_s, phases and costs. `steps` are those that every rank with a part has; at least one.
void add_costs(MergedProfile& merged, const std::set<int64_t>& steps);

}  // namespace holdfast::rendezvous
