#include "ops/cli/data/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/terminal.h"

namespace holdfast::ops {
namespace {

// "[####----] 42 %  1.2 GB of 2.8 GB"
std::string bar_text(int64_t bytes, int64_t in_all) {
  constexpr size_t kBar = 20;
  const double share = in_all > 0 ? std::clamp(static_cast<double>(bytes) / static_cast<double>(in_all), 0.0, 1.0) : 1.0;
  const auto filled = static_cast<size_t>(share * kBar);
  return fmt::format("[{}{}] {:.0f} %  {} of {}", std::string(filled, '#'), std::string(kBar - filled, '-'), 100 * share,
                     bytes_text(static_cast<double>(bytes)), bytes_text(static_cast<double>(in_all)));
}

// ", 35.0 MB/s, 46s left"; "" until there is a rate.
std::string rate_text_of(int64_t moved, int64_t left, double elapsed_s) {
  const double rate = elapsed_s > 0 ? static_cast<double>(moved) / elapsed_s : 0;
  if (elapsed_s < 1 || rate <= 0) return "";
  return fmt::format(", {}/s, {} left", bytes_text(rate), duration_text(static_cast<double>(left) / rate));
}

}  // namespace

std::string progress_text(const model::PrepareProgress& progress, double elapsed_s, size_t width) {
  const char* doing = progress.pass == 1 ? "reading" : progress.skips ? "skipping" : "writing";
  const std::string text =
      fmt::format("{} ({} of 2) {}", doing, progress.pass, bar_text(progress.bytes, progress.bytes_in_all)) +
      rate_text_of(progress.bytes, progress.bytes_in_all - progress.bytes, elapsed_s);
  return text.substr(0, width);
}

std::string progress_text(const PushProgress& progress, double elapsed_s, size_t width) {
  const std::string text = "pushing " + bar_text(progress.bytes, progress.bytes_in_all) +
                           rate_text_of(progress.sent, progress.bytes_in_all - progress.bytes, elapsed_s);
  return text.substr(0, width);
}

DataProgress::~DataProgress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void DataProgress::show(const model::PrepareProgress& progress) {
  if (std::exchange(pass_, progress.pass) != progress.pass) began_ = Clock::now();
  draw([&](double elapsed_s, size_t width) { return progress_text(progress, elapsed_s, width); });
}

void DataProgress::show(const PushProgress& progress) {
  draw([&](double elapsed_s, size_t width) { return progress_text(progress, elapsed_s, width); });
}

void DataProgress::draw(const std::function<std::string(double elapsed_s, size_t width)>& text) {
  constexpr std::chrono::seconds kBetweenLines{30};
  const auto now = Clock::now();
  const double elapsed_s = std::chrono::duration<double>(now - began_).count();
  if (can_redraw(STDERR_FILENO)) {
    const size_t width = std::max<size_t>(terminal_width(STDERR_FILENO), 1) - 1;
    fmt::print(stderr, "\r{}\x1b[K", text(elapsed_s, width));
    drawn_ = true;
  } else if (now - said_ >= kBetweenLines) {
    said_ = now;
    fmt::print(stderr, "{}\n", text(elapsed_s, std::string::npos));
  }
}

}  // namespace holdfast::ops
