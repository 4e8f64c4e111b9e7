#include "worker/drills/fault_points.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/fault_text.h"

namespace holdfast::worker {
namespace {

constexpr std::array kPoints{
    "step",       "allreduce", "reduce_scatter", "all_gather", "commit", "confirmed", "checkpoint_write", "checkpoint_object",
    "rendezvous", "join",      "state_copy",     "norm",       "share",  "gather",    "restore"};
constexpr std::array<std::pair<std::string_view, FaultRule::Action>, 5> kActions{{{"kill", FaultRule::Action::kKill},
                                                                                  {"stop", FaultRule::Action::kStop},
                                                                                  {"slow", FaultRule::Action::kSlow},
                                                                                  {"mark", FaultRule::Action::kMark},
                                                                                  {"note", FaultRule::Action::kNote}}};
constexpr std::chrono::milliseconds kMarkPatience{60'000}, kMarkPoll{1};

struct ArmedRule {
  explicit ArmedRule(FaultRule what) : rule(std::move(what)) {}
  FaultRule rule;
  std::atomic<int64_t> passed{0};  // any thread passes points
};

std::deque<ArmedRule>& rules() {
  static std::deque<ArmedRule> armed;
  return armed;
}

struct Passed {
  int64_t step = -1;
  int rank = -1;
};
thread_local Passed last_passed;

bool parse_number(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// Returns "" or the complaint.
std::string parse_setting(const rendezvous::FaultSetting& setting, FaultRule& rule) {
  const auto& [text, key, value] = setting;
  std::string* path = key == "once_file"    ? &rule.once_file
                      : key == "while_file" ? &rule.while_file
                      : key == "file"       ? &rule.file
                                            : nullptr;
  if (path != nullptr) {
    *path = value;
    return value.empty() ? key + " needs a path" : "";
  }
  int64_t* number = key == "step"   ? &rule.step
                    : key == "rank" ? &rule.rank
                    : key == "pass" ? &rule.pass
                    : key == "ms"   ? &rule.ms
                                    : nullptr;
  if (number == nullptr) return "\"" + key + "\" is not step, rank, pass, ms, while_file, once_file or file";
  return parse_number(value, *number) ? "" : key + " must be a whole number, not \"" + value + "\"";
}

tl::expected<FaultRule, std::string> parse_rule(const rendezvous::FaultText& fault) {
  const auto fail = [&](const std::string& what) { return tl::unexpected(fault.error(what, "worker/drills/fault_points.h")); };
  if (fault.point.empty()) return fail("expected ACTION@POINT");
  FaultRule rule{};
  const auto action =
      std::find_if(kActions.begin(), kActions.end(), [&](const auto& known) { return known.first == fault.action; });
  if (action == kActions.end()) return fail("the action is not kill, stop, slow, mark or note");
  rule.action = action->second;
  rule.point = fault.point;
  if (std::find(kPoints.begin(), kPoints.end(), rule.point) == kPoints.end()) return fail("there is no point " + rule.point);
  for (const auto& setting : fault.settings) {
    if (auto wrong = parse_setting(setting, rule); !wrong.empty()) return fail(wrong);
  }
  const bool needs_file = rule.action == FaultRule::Action::kMark || rule.action == FaultRule::Action::kNote;
  if (needs_file == rule.file.empty()) return fail(fault.action + (needs_file ? " needs file=PATH" : " takes no file"));
  return rule;
}

// The process stands still until the waiting program removes the file.
void mark(const FaultRule& rule, int64_t step, int rank) {
  const int file = open(rule.file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return spdlog::error("drill: {} cannot be made: {}", rule.file, rendezvous::describe_errno(errno));
  close(file);
  spdlog::warn("drill: waits at {} (step {}, rank {})", rule.point, step, rank);
  const auto patience = rule.ms > 0 ? std::chrono::milliseconds(rule.ms) : kMarkPatience;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (access(rule.file.c_str(), F_OK) == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kMarkPoll);
}

// One write, so that lines of several processes do not mix.
void note(const FaultRule& rule, int64_t step, int rank) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const std::string line = fmt::format("{:.6f} {} {} {}\n", now.count(), rule.point, step, rank);
  const int file = open(rule.file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    spdlog::error("drill: {} cannot be written: {}", rule.file, rendezvous::describe_errno(errno));
  if (file >= 0) close(file);
}

void send_signal(const FaultRule& rule, int64_t step, int rank) {
  const std::chrono::milliseconds delay(rule.ms);
  const int signal = rule.action == FaultRule::Action::kKill ? SIGKILL : SIGSTOP;
  spdlog::warn("drill: signal {} to itself at {} (step {}, rank {})", signal, rule.point, step, rank);
  spdlog::default_logger()->flush();
  if (rule.ms == 0) {
    kill(getpid(), signal);
    return;
  }
  std::thread([signal, delay] {
    std::this_thread::sleep_for(delay);
    kill(getpid(), signal);
  }).detach();
}

void fire(const FaultRule& rule, int64_t step, int rank) {
  switch (rule.action) {
    case FaultRule::Action::kSlow:
      return std::this_thread::sleep_for(std::chrono::milliseconds(rule.ms));
    case FaultRule::Action::kMark:
      return mark(rule, step, rank);
    case FaultRule::Action::kNote:
      return note(rule, step, rank);
    case FaultRule::Action::kKill:
    case FaultRule::Action::kStop:
      return send_signal(rule, step, rank);
  }
}

bool holds(ArmedRule& armed, const char* point, int64_t step, int rank) {
  const FaultRule& rule = armed.rule;
  if (rule.point != point || (rule.step >= 0 && rule.step != step) || (rule.rank >= 0 && rule.rank != rank)) return false;
  if (!rule.while_file.empty() && access(rule.while_file.c_str(), F_OK) != 0) return false;
  if (rule.pass > 0 && ++armed.passed != rule.pass) return false;
  return rendezvous::claim_once_file(rule.once_file);
}

}  // namespace

tl::expected<std::vector<FaultRule>, std::string> parse_fault_rules(const std::string& text) {
  std::vector<FaultRule> parsed;
  for (const auto& fault : rendezvous::split_faults(text)) {
    auto rule = parse_rule(fault);
    if (!rule) return tl::unexpected(rule.error());
    parsed.push_back(std::move(*rule));
  }
  return parsed;
}

void arm_fault_points(std::vector<FaultRule> wanted) {
  rules().clear();
  for (FaultRule& rule : wanted) rules().emplace_back(std::move(rule));
  detail::fault_points_armed = !rules().empty();
}

namespace detail {

bool fault_points_armed = false;

void pass_fault_point(const char* point, int64_t step, int rank) {
  last_passed = {step, rank};
  for (ArmedRule& armed : rules()) {
    if (holds(armed, point, step, rank)) fire(armed.rule, step, rank);
  }
}

void pass_fault_point_within(const char* point) {
  const Passed last = last_passed;
  pass_fault_point(point, last.step, last.rank);
}

}  // namespace detail
}  // namespace holdfast::worker
