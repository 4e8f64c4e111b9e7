// The story of a run, for people: printed line by line with --trace, and free of cost without.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tests/sim/timeline.h"

namespace holdfast::sim {

class Story {
 public:
  Story(bool on, const Timeline& time) : on_(on), time_(time) {}

  template <typename... Args>
  void tell(const std::string& who, fmt::format_string<Args...> text, Args&&... args) const {
    if (!on_) return;
    fmt::print("{:>9.3f} s  {:<8}  {}\n", static_cast<double>(time_.now()) / 1000, who,
               fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  bool on_;
  const Timeline& time_;
};

}  // namespace holdfast::sim
