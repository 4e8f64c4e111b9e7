#include "ops/cli/jobs/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

constexpr size_t kBarLongest = 24, kBarShortest = 8;

std::string checkpoint_text(const Json& job) {
  if (!has(job, "latest_checkpoint")) return "";
  const Json& checkpoint = job["latest_checkpoint"];
  return fmt::format("checkpoint {} ({} ago)", integer_at(checkpoint, "step"), duration_text(number_at(checkpoint, "age_s")));
}

std::string bar_of(double share, size_t width) {
  const auto full = static_cast<size_t>(share * static_cast<double>(width));
  std::string bar;
  for (size_t i = 0; i < width; ++i) bar += i < full ? "█" : "░";
  return bar;
}

struct Part {
  std::string text;
  int worth;  // the least worthy part is left out first
};

std::string joined_within(std::vector<Part> parts, size_t width) {
  std::erase_if(parts, [](const Part& part) { return part.text.empty(); });
  for (;;) {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    if (columns(line) <= width || parts.size() <= 1) return cut_to(line, width);
    parts.erase(std::ranges::min_element(parts, {}, &Part::worth));
  }
}

}  // namespace

bool is_final(const std::string& state) {
  return state == "succeeded" || state == "failed" || state == "cancelled";
}

Style style_of_state(const std::string& state) {
  if (state == "running" || state == "succeeded") return Style::kGood;
  if (state == "failed" || state == "lost") return Style::kBad;
  return state == "cancelled" || state == "left" ? Style::kFaint : Style::kPending;
}

std::string state_text(const Json& job) {
  const std::string reason = text_at(job, "reason");
  return reason.empty() ? text_at(job, "state") : fmt::format("{} ({})", text_at(job, "state"), reason);
}

bool serves(const Json& job) {
  return text_at(job, "kind") == "serve";
}

std::string steps_text(const Json& job) {
  if (serves(job)) return "-";
  const int64_t total = integer_at(job, "total_steps");
  return fmt::format("{}/{}", integer_at(job, "step"), total > 0 ? fmt::format("{}", total) : "?");
}

std::string progress_line(const Json& job) {
  const std::string state = text_at(job, "state");
  const int64_t step = integer_at(job, "step"), total = integer_at(job, "total_steps");
  std::string line = serves(job) ? "serves" : "step " + steps_text(job);
  if (total > 0) line += fmt::format(" ({}%)", 100 * step / total);
  if (state != "running") {
    line = fmt::format("{}  {}", state, line);
    if (!text_at(job, "reason").empty()) line += ": " + text_at(job, "reason");
    return line;
  }
  if (serves(job)) return line + "  " + rendezvous::counted(integer_at(job, "world_size"), "replica");
  line += "  loss " + loss_text(number_at(job, "loss"));
  line += "  " + rate_text(number_at(job, "tokens_per_second"));
  line += "  ETA " + duration_text(number_at(job, "eta_s"));
  line += "  " + rendezvous::counted(integer_at(job, "world_size"), "worker");
  if (const std::string checkpoint = checkpoint_text(job); !checkpoint.empty()) line += "  " + checkpoint;
  return line;
}

std::vector<std::string> progress_lines(const Json& job, size_t width, bool colour) {
  if (serves(job)) return {cut_to(printable(progress_line(job)), width)};
  const std::string state = text_at(job, "state");
  const bool running = state == "running";
  const int64_t step = integer_at(job, "step"), total = integer_at(job, "total_steps");
  const double share = total > 0 ? std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0) : 0;
  const std::string before = running ? "" : cut_to(state + "  ", width);
  const std::string after = joined_within({{fmt::format("{:3.0f}%", std::floor(100 * share)), 2},
                                           {"step " + steps_text(job), 3},
                                           {running ? "ETA " + duration_text(number_at(job, "eta_s")) : "", 1}},
                                          width - std::min(width, columns(before)));
  const size_t used = columns(before) + columns(after) + 2, left = width > used ? width - used : 0;
  const Style style = style_of_state(state);
  const std::string bar = left < kBarShortest ? "" : bar_of(share, std::min(left, kBarLongest)) + "  ";
  std::vector<std::string> lines = {painted(before, style, colour) + painted(bar, style, colour) + after};
  if (running) {
    lines.push_back(joined_within({{"loss " + loss_text(number_at(job, "loss")), 4},
                                   {rate_text(number_at(job, "tokens_per_second")), 1},
                                   {rendezvous::counted(integer_at(job, "world_size"), "worker"), 2},
                                   {checkpoint_text(job), 3}},
                                  width));
  } else if (const std::string reason = printable(text_at(job, "reason")); !reason.empty()) {
    lines.push_back(cut_to(reason, width));
  }
  return lines;
}

std::string final_line(const Json& job) {
  const std::string state = text_at(job, "state"), reason = text_at(job, "reason");
  return fmt::format("{} {} after step {}{}", text_at(job, "id"), state, steps_text(job),
                     reason.empty() || state == "succeeded" ? "" : ": " + reason);
}

std::string labels_text(const Json& labelled, const char* separator) {
  std::string text;
  if (!has(labelled, "labels") || !labelled["labels"].is_object()) return text;
  for (const auto& [key, value] : labelled["labels"].items())
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : separator, key, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

std::string clock_text(const std::string& rfc3339) {
  return rfc3339.size() >= 19 ? rfc3339.substr(11, 8) : rfc3339;
}

std::string event_line(const Json& event) {
  return fmt::format("{}  {:<21} {}", clock_text(text_at(event, "time")), text_at(event, "kind"), text_at(event, "message"));
}

}  // namespace holdfast::ops
