// The commands as data: names, options, words for people. Read from the CLI11 app itself, so that what is made of it
// (completion, the manual page, `help --json`) cannot go stale.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"

namespace holdfast::ops {

// Options that help shows: not hidden, and no positional arguments.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
std::vector<const CLI::Option*> arguments_of(const CLI::App& command);
bool takes_value(const CLI::Option& option);
bool may_repeat(const CLI::Option& option);
// The words between the braces of its type name, "{a,b,c}"; empty when any value will do.
std::vector<std::string> choices_of(const CLI::Option& option);
// "JOB", "FILE": its type name without what is checked.
std::string value_name_of(const CLI::Option& option);
// "-f", "--follow"
std::vector<std::string> names_of(const CLI::Option& option);
// The lines of the command's footer behind "Example:", without their indentation.
std::vector<std::string> examples_of(const CLI::App& command);

Json json_of(const CLI::App& command);  // with what is below it

}  // namespace holdfast::ops
