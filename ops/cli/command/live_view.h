// A list that is shown again and again: in place on a terminal, when it has changed elsewhere; with --json one object a line.
#pragma once

#include <functional>
#include <string>

#include "ops/cli/command/api.h"

namespace holdfast::ops {

struct View {
  Json json;
  // The same for people: as wide as the terminal, 0 for no bound.
  std::function<std::string(size_t width, bool colour)> text;
};

// Asks `look` for the newest view about once a second until Ctrl-C, which is exit code 0 here: nothing waits for it. A service
// that goes away is waited for. Does not return but by a Failure of the first look.
[[noreturn]] void show_live(const Options& options, const std::function<View()>& look);
// The view once, on stdout.
void show_once(const Options& options, const View& view);

}  // namespace holdfast::ops
