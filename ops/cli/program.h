// The command line as a whole: all commands, parsing, the words about a mistake, and the exit code that a failure becomes.
#pragma once

#include <memory>

#include "ops/cli/command/command.h"

namespace holdfast::ops {

// The whole command line, not parsed yet. `options` outlives it.
std::unique_ptr<CLI::App> make_app(Options& options);

// The whole program but for main's own lines; `gpus` as in Options. Returns the exit code.
int run(int argc, char** argv, const worker::GpuOps* gpus = nullptr);

}  // namespace holdfast::ops
