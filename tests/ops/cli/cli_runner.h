// Runs the command line in this process, and keeps its output and exit code.
#pragma once

#include <string>
#include <vector>

namespace holdfast::ops {

struct Said {
  int exit_code;
  std::string out, err;
};
Said holdfast(std::vector<std::string> arguments);

}  // namespace holdfast::ops
