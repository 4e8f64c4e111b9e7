#include "ops/cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace holdfast::ops {
namespace {

constexpr size_t kUsualWidth = 80, kUsualHeight = 24;  // of a terminal that does not know its size

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing of ours changes it
  return value == nullptr ? "" : value;
}

bool obeys_escapes() {
  const std::string kind = environment("TERM");
  return !kind.empty() && kind != "dumb";
}

const char* sequence_of(Style style) {
  switch (style) {
    case Style::kBold:
      return "\033[1m";
    case Style::kFaint:
      return "\033[2m";
    case Style::kGood:
      return "\033[32m";
    case Style::kPending:
      return "\033[33m";
    case Style::kBad:
      return "\033[31m";
    default:
      return "";
  }
}

winsize size_of(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) size = {};
  return size;
}

}  // namespace

size_t terminal_width(int fd) {
  if (isatty(fd) == 0) return 0;
  const size_t width = size_of(fd).ws_col;
  return width == 0 ? kUsualWidth : width;
}

size_t terminal_height(int fd) {
  if (isatty(fd) == 0) return 0;
  const size_t height = size_of(fd).ws_row;
  return height == 0 ? kUsualHeight : height;
}

bool can_redraw(int fd) {
  return isatty(fd) != 0 && obeys_escapes();
}

bool colour_wanted(int fd) {
  if (!environment("NO_COLOR").empty()) return false;
  if (const std::string forced = environment("CLICOLOR_FORCE"); !forced.empty() && forced != "0") return true;
  return can_redraw(fd);
}

std::string painted(const std::string& text, Style style, bool colour) {
  return !colour || style == Style::kPlain || text.empty() ? text : sequence_of(style) + text + "\033[0m";
}

}  // namespace holdfast::ops
