#include "ops/cli/terminal/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "ops/cli/terminal/terminal.h"

namespace holdfast::ops {

std::string bar_text(int64_t done, int64_t in_all) {
  constexpr size_t kBar = 20;
  const double share = in_all > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(in_all), 0.0, 1.0) : 1.0;
  const auto filled = static_cast<size_t>(share * kBar);
  return fmt::format("[{}{}] {:.0f} %", std::string(filled, '#'), std::string(kBar - filled, '-'), 100 * share);
}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::draw(const std::function<std::string(double elapsed_s)>& text) {
  constexpr std::chrono::seconds kBetweenLines{30};
  const auto now = Clock::now();
  const double elapsed_s = std::chrono::duration<double>(now - began_).count();
  if (can_redraw(STDERR_FILENO)) {
    const size_t width = std::max<size_t>(terminal_width(STDERR_FILENO), 1) - 1;
    fmt::print(stderr, "\r{}\x1b[K", text(elapsed_s).substr(0, width));
    drawn_ = true;
  } else if (now - said_ >= kBetweenLines) {
    said_ = now;
    fmt::print(stderr, "{}\n", text(elapsed_s));
  }
}

}  // namespace holdfast::ops
