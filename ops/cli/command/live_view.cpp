// On a terminal the view has the alternate screen, which leaves what stood there before alone; every row is drawn at its own
// place, so that a change of size cannot shift them. The last view stays behind.
#include "ops/cli/command/live_view.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <sstream>
#include <thread>

#include "ops/cli/terminal/signal_watch.h"
#include "ops/cli/terminal/terminal.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(1000);
// The alternate screen, without a cursor, and with lines that are cut at the edge instead of going on below.
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[?7l\033[H";
constexpr const char* kLeave = "\033[?7h\033[?25h\033[?1049l";
constexpr const char* kAway = "The service is away. Waiting for it to come back; what is below is older.\n";

class LiveScreen {
 public:
  explicit LiveScreen(const Options& options) : json_(options.json), wide_(options.wide) {}
  ~LiveScreen() { give_back(); }
  LiveScreen(const LiveScreen&) = delete;

  void show(const View& view, bool away) {
    const std::lock_guard lock(mutex_);
    view_ = view;
    away_ = away;
    if (redraws_) {
      if (!stopped_) draw();
    } else {
      print_if_new();
    }
  }
  // Also when it goes on after a stop.
  void resized() {
    const std::lock_guard lock(mutex_);
    if (redraws_ && (drawn_ || stopped_)) draw();
    stopped_ = false;
  }
  // Before the process is stopped: the terminal is the shell's meanwhile.
  void stops() {
    const std::lock_guard lock(mutex_);
    stopped_ = drawn_;
    if (drawn_) fmt::print("{}", kLeave);
    std::fflush(stdout);
    drawn_ = false;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (!drawn_) return;
    fmt::print("{}{}", kLeave, view_.text(wide_ ? 0 : terminal_width(STDOUT_FILENO), colour_));
    std::fflush(stdout);
    drawn_ = false;
  }

 private:
  // Whatever ends the program, the terminal is as it was. Throws nothing.
  void give_back() {
    if (!drawn_) return;
    std::fputs(kLeave, stdout);
    std::fflush(stdout);
  }

  void draw() {
    const size_t width = terminal_width(STDOUT_FILENO), height = terminal_height(STDOUT_FILENO);
    std::istringstream lines((away_ ? kAway : "") + view_.text(width, colour_));
    std::string frame = drawn_ ? "\033[H" : kEnter;
    size_t row = 0, hidden = 0;
    for (std::string line; std::getline(lines, line);) {
      if (++row < height) {
        frame += line + "\033[K\r\n";
      } else {
        ++hidden;
      }
    }
    if (hidden > 0) frame += cut_to(fmt::format("… {} more lines than this window has", hidden), width > 0 ? width - 1 : 0);
    fmt::print("{}\033[J", frame);
    std::fflush(stdout);
    drawn_ = true;
  }

  void print_if_new() {
    const std::string text = json_ ? rendezvous::json_text(view_.json) + "\n" : view_.text(0, colour_);
    if (away_ || text == printed_) return;
    fmt::print("{}{}", printed_.empty() || json_ ? "" : "\n", text);
    std::fflush(stdout);
    printed_ = text;
  }

  const bool json_, wide_;
  const bool redraws_ = !json_ && can_redraw(STDOUT_FILENO), colour_ = colour_wanted(STDOUT_FILENO);
  std::mutex mutex_;
  View view_;
  bool away_ = false, drawn_ = false, stopped_ = false;
  std::string printed_;
};

}  // namespace

void show_once(const Options& options, const View& view) {
  if (options.json) return print_json(view.json);
  fmt::print("{}", view.text(options.wide ? 0 : terminal_width(STDOUT_FILENO), colour_wanted(STDOUT_FILENO)));
}

void show_live(const Options& options, const std::function<View()>& look) {
  View view = patiently(look);
  LiveScreen screen(options);
  const SignalWatch signals(
      [&](int) {
        screen.leave();
        return static_cast<int>(kDone);
      },
      [&] { screen.resized(); }, [&] { screen.stops(); });
  for (bool away = false;; std::this_thread::sleep_for(kEvery)) {
    screen.show(view, away);
    try {
      view = look();
      away = false;
    } catch (const Failure& failure) {
      if (failure.exit_code != kUnreachable && !failure.busy) {
        screen.leave();
        throw;
      }
      away = true;
    }
  }
}

}  // namespace holdfast::ops
