#include "ops/cli/data_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/terminal.h"

namespace holdfast::ops {

std::string progress_text(const model::PrepareProgress& progress, double elapsed_s, size_t width) {
  constexpr size_t kBar = 20;
  const double share =
      progress.bytes_in_all > 0
          ? std::clamp(static_cast<double>(progress.bytes) / static_cast<double>(progress.bytes_in_all), 0.0, 1.0)
          : 1.0;
  const auto filled = static_cast<size_t>(share * kBar);
  const double rate = elapsed_s > 0 ? static_cast<double>(progress.bytes) / elapsed_s : 0;
  const char* doing = progress.pass == 1 ? "reading" : progress.skips ? "skipping" : "writing";
  std::string text = fmt::format("{} ({} of 2) [{}{}] {:.0f} %  {} of {}", doing, progress.pass, std::string(filled, '#'),
                                 std::string(kBar - filled, '-'), 100 * share, bytes_text(static_cast<double>(progress.bytes)),
                                 bytes_text(static_cast<double>(progress.bytes_in_all)));
  if (elapsed_s >= 1 && rate > 0) {
    text += fmt::format(", {}/s, {} left", bytes_text(rate),
                        duration_text(static_cast<double>(progress.bytes_in_all - progress.bytes) / rate));
  }
  return text.substr(0, width);
}

DataProgress::~DataProgress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void DataProgress::show(const model::PrepareProgress& progress) {
  constexpr std::chrono::seconds kBetweenLines{30};
  const auto now = Clock::now();
  if (std::exchange(pass_, progress.pass) != progress.pass) began_ = now;
  const double elapsed_s = std::chrono::duration<double>(now - began_).count();
  if (can_redraw(STDERR_FILENO)) {
    const size_t width = std::max<size_t>(terminal_width(STDERR_FILENO), 1) - 1;
    fmt::print(stderr, "\r{}\x1b[K", progress_text(progress, elapsed_s, width));
    drawn_ = true;
  } else if (now - said_ >= kBetweenLines) {
    said_ = now;
    fmt::print(stderr, "{}\n", progress_text(progress, elapsed_s, std::string::npos));
  }
}

}  // namespace holdfast::ops
