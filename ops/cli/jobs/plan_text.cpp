#include "ops/cli/jobs/plan_text.h"

#include <fmt/format.h>

#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "ops/cli/terminal/table.h"

namespace holdfast::ops {
namespace {

std::string comparison_table(const Json& report) {
  Table table({"", "MICROBATCH x ACCUMULATION, WIRE", Column("TOKENS/S").right(), Column("OF ONE NODE").right()});
  for (const Json& row : report.value("comparison", Json::array())) {
    table.add({text_at(row, "name"), text_at(row, "settings"),
               count_text(static_cast<int64_t>(number_at(row, "tokens_per_s").value_or(0))),
               fmt::format("{:.2f}x", number_at(row, "of_one_node").value_or(0))});
  }
  return table.text(0);
}

}  // namespace

std::string plan_comparison(const Json& report) {
  std::string text = text_at(report, "verdict") + "\n";
  if (integer_at(report, "nodes") > 1) text += "\n" + comparison_table(report);
  for (const Json& note : report.value("notes", Json::array())) text += fmt::format("note: {}\n", note.get<std::string>());
  return text;
}

std::string plan_sources(const Json& report) {
  std::string text = fmt::format("device  {} a microbatch: {}\n", seconds_text(number_at(report, "microbatch_s").value_or(0)),
                                 text_at(report, "device_source"));
  if (integer_at(report, "nodes") > 1) {
    text += fmt::format("link    {} each way, round trip {}: {}\n",
                        link_rate_text(number_at(report, "link_bytes_per_s").value_or(0)),
                        seconds_text(number_at(report, "round_trip_s").value_or(0)), text_at(report, "link_source"));
  }
  if (const auto memory = number_at(report, "device_memory_bytes"))
    text += fmt::format("memory  {}: {}\n", bytes_text(*memory), text_at(report, "memory_source"));
  return text;
}

}  // namespace holdfast::ops
