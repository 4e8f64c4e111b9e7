// The end of a run: a rule is broken, or the run does not come to its end.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace holdfast::sim {

class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void broken(fmt::format_string<Args...> text, Args&&... args) {
  throw Violation(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace holdfast::sim
