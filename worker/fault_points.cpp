#include "worker/fault_points.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

namespace holdfast::worker {
namespace {

constexpr std::array kPoints{"step", "allreduce", "commit", "confirmed", "checkpoint_write", "join"};

std::vector<FaultRule>& rules() {
  static std::vector<FaultRule> armed;
  return armed;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

bool parse_number(std::string_view text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// "" or what is wrong.
std::string parse_setting(const std::string& setting, FaultRule& rule) {
  const size_t at = setting.find('=');
  const std::string key = setting.substr(0, at);
  const std::string value = at == std::string::npos ? "" : setting.substr(at + 1);
  if (key == "once_file" || key == "while_file") {
    (key == "once_file" ? rule.once_file : rule.while_file) = value;
    return value.empty() ? key + " needs a path" : "";
  }
  int64_t* number = key == "step" ? &rule.step : key == "rank" ? &rule.rank : key == "ms" ? &rule.ms : nullptr;
  if (number == nullptr) return "\"" + key + "\" is not step, rank, ms, while_file or once_file";
  return parse_number(value, *number) ? "" : key + " must be a whole number, not \"" + value + "\"";
}

tl::expected<FaultRule, std::string> parse_rule(const std::string& text) {
  const auto fail = [&](const std::string& what) {
    return tl::unexpected("HOLDFAST_FAULT: in \"" + text + "\": " + what + " (see worker/fault_points.h)");
  };
  const auto parts = split(text, ':');
  const auto head = split(parts.front(), '@');
  if (head.size() != 2) return fail("expected ACTION@POINT");
  FaultRule rule{};
  if (head[0] == "kill") {
    rule.action = FaultRule::Action::kKill;
  } else if (head[0] == "stop") {
    rule.action = FaultRule::Action::kStop;
  } else if (head[0] == "slow") {
    rule.action = FaultRule::Action::kSlow;
  } else {
    return fail("the action is not kill, stop or slow");
  }
  rule.point = head[1];
  if (std::find(kPoints.begin(), kPoints.end(), rule.point) == kPoints.end()) return fail("there is no point " + rule.point);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (auto wrong = parse_setting(parts[i], rule); !wrong.empty()) return fail(wrong);
  }
  return rule;
}

bool is_first(const std::string& once_file) {
  if (once_file.empty()) return true;
  const int file = open(once_file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  close(file);
  return true;
}

void fire(const FaultRule& rule, int64_t step, int rank) {
  const std::chrono::milliseconds delay(rule.ms);
  if (rule.action == FaultRule::Action::kSlow) return std::this_thread::sleep_for(delay);
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

}  // namespace

tl::expected<std::vector<FaultRule>, std::string> parse_fault_rules(const std::string& text) {
  std::vector<FaultRule> parsed;
  for (const auto& part : split(text, ',')) {
    auto rule = parse_rule(part);
    if (!rule) return tl::unexpected(rule.error());
    parsed.push_back(std::move(*rule));
  }
  return parsed;
}

void arm_fault_points(std::vector<FaultRule> armed) {
  rules() = std::move(armed);
  detail::fault_points_armed = !rules().empty();
}

namespace detail {

bool fault_points_armed = false;

void pass_fault_point(const char* point, int64_t step, int rank) {
  for (const FaultRule& rule : rules()) {
    if (rule.point != point || (rule.step >= 0 && rule.step != step) || (rule.rank >= 0 && rule.rank != rank)) continue;
    if (!rule.while_file.empty() && access(rule.while_file.c_str(), F_OK) != 0) continue;
    if (is_first(rule.once_file)) fire(rule, step, rank);
  }
}

}  // namespace detail
}  // namespace holdfast::worker
