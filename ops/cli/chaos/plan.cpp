#include "ops/cli/chaos/plan.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <random>
#include <sstream>
#include <utility>

namespace holdfast::ops {
namespace {

constexpr std::array<std::pair<FaultKind, const char*>, 6> kNames{{{FaultKind::kKill, "kill"},
                                                                   {FaultKind::kFreeze, "freeze"},
                                                                   {FaultKind::kCut, "cut"},
                                                                   {FaultKind::kSlow, "slow"},
                                                                   {FaultKind::kCorrupt, "corrupt"},
                                                                   {FaultKind::kServiceKill, "service-kill"}}};
constexpr std::array<std::pair<const char*, double>, 5> kUnits{{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};

tl::expected<FaultKind, std::string> parse_fault(std::string text) {
  for (char& c : text) c = c == '_' ? '-' : c;
  for (const auto& [kind, name] : kNames) {
    if (text == name) return kind;
  }
  return tl::unexpected(fmt::format("\"{}\" is no fault: kill, freeze, cut, slow, corrupt or service-kill", text));
}

// In [0, 1), of the engine's own bits: the library's distributions differ between systems.
double fraction(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::vector<std::string> words_of_line(const std::string& line) {
  std::istringstream stream(line.substr(0, line.find('#')));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

tl::expected<PlannedFault, std::string> parse_line(const std::vector<std::string>& words, double hold_s) {
  if (words.size() < 2) return tl::unexpected(std::string("expected AT FAULT [WORKER] [for DURATION]"));
  const auto at = parse_duration(words[0]);
  const auto kind = parse_fault(words[1]);
  if (!at) return tl::unexpected(at.error());
  if (!kind) return tl::unexpected(kind.error());
  PlannedFault fault{*at, *kind, "", 0, lasts(*kind) ? hold_s : 0};
  size_t next = 2;
  if (next < words.size() && words[next] != "for") fault.worker = words[next++];
  if (*kind == FaultKind::kServiceKill && !fault.worker.empty())
    return tl::unexpected(fmt::format("service-kill takes no worker, but here is \"{}\"", fault.worker));
  if (next == words.size()) return fault;
  if (words[next] != "for" || next + 2 != words.size() || !lasts(*kind))
    return tl::unexpected(
        fmt::format("\"{}\" is one word too many: \"for DURATION\" may follow a freeze, cut or slow", words[next]));
  const auto hold = parse_duration(words[next + 1]);
  if (!hold) return tl::unexpected(hold.error());
  fault.hold_s = *hold;
  return fault;
}

}  // namespace

const char* fault_name(FaultKind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  return "?";
}

bool lasts(FaultKind kind) {
  return kind == FaultKind::kFreeze || kind == FaultKind::kCut || kind == FaultKind::kSlow;
}

bool needs_consent(FaultKind kind) {
  return kind == FaultKind::kCut || kind == FaultKind::kSlow || kind == FaultKind::kCorrupt;
}

tl::expected<std::vector<FaultKind>, std::string> parse_faults(const std::string& list) {
  std::vector<FaultKind> kinds;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    const auto kind = parse_fault(name);
    if (!kind) return tl::unexpected(kind.error());
    kinds.push_back(*kind);
  }
  if (kinds.empty()) return tl::unexpected(std::string("name at least one fault, such as kill,freeze"));
  return kinds;
}

tl::expected<double, std::string> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  for (const auto& [name, seconds] : kUnits) {
    if (error == std::errc() && value >= 0 && unit == name) return value * seconds;
  }
  return tl::unexpected(fmt::format("\"{}\" is no duration: write 500ms, 15s, 10m, 2h or 30d", text));
}

tl::expected<std::vector<PlannedFault>, std::string> parse_script(const std::string& text, double hold_s, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<PlannedFault> plan;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::vector<std::string> words = words_of_line(line);
    if (words.empty()) continue;
    auto fault = parse_line(words, hold_s);
    if (!fault) return tl::unexpected(fmt::format("line {}: {}", number, fault.error()));
    if (!plan.empty() && fault->at_s < plan.back().at_s)
      return tl::unexpected(fmt::format("line {}: {} is before the line above: write them in order", number, words[0]));
    fault->draw = random();
    plan.push_back(*std::move(fault));
  }
  if (plan.empty()) return tl::unexpected(std::string("it names no fault"));
  return plan;
}

std::vector<PlannedFault> draw_plan(const PlanSettings& settings) {
  std::mt19937_64 random(settings.seed);
  std::vector<PlannedFault> plan;
  for (double at = 0;;) {
    at += settings.every_s * (0.5 + fraction(random));
    const FaultKind kind = settings.kinds[random() % settings.kinds.size()];
    const uint64_t draw = random();
    if (at >= settings.for_s) return plan;
    plan.push_back({at, kind, "", draw, lasts(kind) ? settings.hold_s : 0});
  }
}

}  // namespace holdfast::ops
