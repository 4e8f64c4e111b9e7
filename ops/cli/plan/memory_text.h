// `holdfast plan --memory`: what a worker holds for a job, by part, on a GPU and on the CPU, and what would lower it.
#pragma once

#include "ops/cli/command/command.h"
#include "rendezvous/plan/model.h"

namespace holdfast::ops {

void print_memory(const Options& options, const rendezvous::PlanInputs& inputs);

}  // namespace holdfast::ops
