// `holdfast data push`, `ls` and `rm`: data sets that the service keeps.
#pragma once

#include "ops/cli/command/command.h"

namespace holdfast::ops {

void add_data_set_commands(CLI::App& data, Options& options);

}  // namespace holdfast::ops
