// A plan, as the service answers it and `holdfast plan --json` prints it, in the few lines that people need.
#pragma once

#include <string>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

// The verdict, a table of one node alone, the settings asked for and those that train the same, and what else to know.
std::string plan_comparison(const Json& report);
// The numbers behind it, and where each is from.
std::string plan_sources(const Json& report);

}  // namespace holdfast::ops
