#include "ops/cli/jobs/progress_screen.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/terminal.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr auto kLineEvery = std::chrono::milliseconds(2000);

// The visible part of the text: escape sequences such as "ESC [ 32 m" take no room.
std::string unpainted(const std::string& text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\033') {
      plain += text[at];
    } else {
      at = text.find('m', at);
    }
  }
  return plain;
}

}  // namespace

ProgressScreen::ProgressScreen(std::FILE* stream)
    : stream_(stream), fd_(fileno(stream)), redraws_(can_redraw(fd_)), colour_(colour_wanted(fd_)) {}

ProgressScreen::~ProgressScreen() {
  if (!drawn_.empty()) fmt::print(stream_, "\n");
}

// A job's text may be anybody's: on a terminal it must not act as a command to it.
std::string ProgressScreen::fit_for_stream(const std::string& line) const {
  return terminal_width(fd_) > 0 ? printable(line) : line;
}

void ProgressScreen::event(const std::string& line) {
  const std::lock_guard lock(mutex_);
  clear();
  fmt::print(stream_, "{}\n", fit_for_stream(line));
  draw();
}

void ProgressScreen::progress(const Json& job) {
  const std::lock_guard lock(mutex_);
  job_ = job;
  if (redraws_) {
    clear();
    return draw();
  }
  const std::string line = fit_for_stream(progress_line(job));
  const auto now = std::chrono::steady_clock::now();
  if (line == printed_ || (!printed_.empty() && now - printed_at_ < kLineEvery)) return;
  printed_ = line;
  printed_at_ = now;
  fmt::print(stream_, "{}\n", line);
  std::fflush(stream_);
}

void ProgressScreen::resized() {
  const std::lock_guard lock(mutex_);
  if (drawn_.empty()) return;
  clear();
  draw();
}

void ProgressScreen::leave(const std::string& line) {
  const std::lock_guard lock(mutex_);
  clear();
  job_ = Json();
  if (fit_for_stream(line) != printed_) fmt::print(stream_, "{}\n", fit_for_stream(line));
  std::fflush(stream_);
}

// A terminal that became narrower has broken the lines that were drawn into more rows.
void ProgressScreen::clear() {
  if (drawn_.empty()) return;
  const size_t width = std::max<size_t>(terminal_width(fd_), 1);
  size_t rows = 0;
  for (const std::string& line : drawn_) rows += 1 + (std::max<size_t>(columns(unpainted(line)), 1) - 1) / width;
  if (rows > 1) fmt::print(stream_, "\033[{}A", rows - 1);
  fmt::print(stream_, "\r\033[J");
  drawn_.clear();
}

void ProgressScreen::draw() {
  if (!redraws_ || job_.is_null()) return;
  // One column stays free: a character in the last one leaves the cursor in a place that terminals disagree on.
  drawn_ = progress_lines(job_, std::max<size_t>(terminal_width(fd_), 2) - 1, colour_);
  for (size_t i = 0; i < drawn_.size(); ++i) fmt::print(stream_, "{}{}", i > 0 ? "\n" : "", drawn_[i]);
  std::fflush(stream_);
}

}  // namespace holdfast::ops
