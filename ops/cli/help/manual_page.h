// The manual page holdfast(1) in roff, from the commands and the help topics. `holdfast help --man` prints it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace holdfast::ops {

std::string manual_page(const CLI::App& app);

}  // namespace holdfast::ops
