// `holdfast submit --auto`: a job is planned before it is submitted, and takes the settings that lose least to the network.
//
// Promises: only settings that train the same are taken (as many tokens a step, as exact a sum), and fields that were given by
// name stay as given. A number that is neither given nor known to the service is found out by a trial (trial.h), where workers
// are free.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct AutoFlags {
  bool wanted = false;
  std::optional<double> microbatch_s, link_mb_s, rtt_ms, device_memory_gib;

  // --auto, and what may be told of the speed. The object outlives the parsing.
  CLI::Option* add_to(CLI::App& command);
};

struct PlannedJob {
  Json spec;    // with the settings that are taken
  Json report;  // as POST /v1/plan answers it; of one node, the verdict alone
};
// `tries`: whether a trial may be run. Throws a Failure where there is nothing to go by.
PlannedJob planned(const Options& options, Api& api, const Json& spec, const AutoFlags& flags, bool tries);

// For people: the verdict first.
std::string plan_text(const Json& report);

}  // namespace holdfast::ops
