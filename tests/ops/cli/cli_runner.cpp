// Without `serve`, `backup`, `store` and `restore`: they need the real service, and these tests have a fake one.
#include "tests/ops/cli/cli_runner.h"

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include "ops/cli/program.h"

namespace holdfast::ops {

void add_serve_command(CLI::App&, Options&) {}
void add_generate_command(CLI::App&, Options&) {}
void add_serve_model_command(CLI::App&, Options&) {}
void add_serve_stage_command(CLI::App&, Options&) {}
void add_backup_commands(CLI::App&, Options&) {}
void add_store_commands(CLI::App&, Options&) {}

Said holdfast(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "holdfast");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Said said{-1, "", ""};
  try {
    said.exit_code = run(static_cast<int>(argv.size()), argv.data());
  } catch (const std::exception& error) {
    ADD_FAILURE() << "it threw: " << error.what();
  }
  said.out = ::testing::internal::GetCapturedStdout();
  said.err = ::testing::internal::GetCapturedStderr();
  return said;
}

}  // namespace holdfast::ops
