// Workers: who is there, and asking one to leave.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/command/live_view.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

std::string busy_text(const Json& load) {
  const auto busy = number_at(load, "busy");
  return busy ? fmt::format("{:.0f}%", 100 * *busy) : "-";
}

// "212 W, 61 C"
std::string power_text(const Json& load) {
  const auto watts = number_at(load, "watts"), celsius = number_at(load, "celsius");
  std::string text = watts ? fmt::format("{:.0f} W", *watts) : "";
  if (celsius) text += fmt::format("{}{:.0f} C", text.empty() ? "" : ", ", *celsius);
  return text.empty() ? "-" : text;
}

std::string table_text(const Json& nodes, size_t width, bool colour) {
  Table table({Column("WORKER").shrinks(2, 8), "STATE", Column("PHASE").left_out(3), "JOB", Column("STEP").right().left_out(4),
               Column("SEEN").right().left_out(5), Column("BUSY").right().left_out(4), Column("USED").right().left_out(4),
               Column("MEMORY").right().left_out(2), Column("POWER").right().left_out(6),
               Column("DEVICE").shrinks(1, 8).left_out(1)});
  for (const Json& node : nodes) {
    const int64_t step = integer_at(node, "step", -1), threads = integer_at(node, "threads");
    const double held_back_s = number_at(node, "held_back_s").value_or(0);
    const std::string state =
        held_back_s > 0 ? fmt::format("held back {}", duration_text(held_back_s)) : text_at(node, "state");
    const std::string labels = labels_text(node, ",");
    const Json load = node.value("load", Json::object());
    table.add({text_at(node, "id"), Cell(state, state == "alive" ? Style::kGood : style_of_state(state)),
               text_at(node, "phase"), text_at(node, "job", "-"), step < 0 ? "-" : fmt::format("{}", step),
               duration_text(number_at(node, "last_seen_s")), busy_text(load), bytes_text(number_at(load, "memory_used_bytes")),
               bytes_text(number_at(node, "memory_bytes")), power_text(load),
               fmt::format("{}{} {}{}{}", text_at(node, "device"), threads > 0 ? fmt::format(" x{}", threads) : "",
                           text_at(node, "device_model"), labels.empty() ? "" : "  ", labels)});
  }
  std::string text = table.text(width, colour);
  for (const Json& node : nodes) {
    if (const std::string why = text_at(node, "held_back_reason"); !why.empty()) text += printable(why) + "\n";
  }
  return text;
}

void list_nodes(const Options& options, bool watch) {
  const auto api = std::make_shared<Api>(options);
  const std::string none =
      fmt::format("No workers yet. Start one on each machine: holdfast-worker --server {}\n", server_of(options));
  const auto look = [=] {
    const auto nodes = std::make_shared<Json>(api->list("/v1/nodes", "nodes"));
    return View{{{"nodes", *nodes}, {"next_page_token", nullptr}},
                [=](size_t width, bool colour) { return nodes->empty() ? none : table_text(*nodes, width, colour); }};
  };
  if (watch) show_live(options, look);
  show_once(options, look());
}

void drain(const Options& options, const std::string& worker) {
  Api api(options);
  const Json node = api.post(fmt::format("/v1/nodes/{}/drain", percent_encoded(worker)));
  if (options.json) return print_json(node);
  fmt::print("{}: leaves after the step under way; its process ends\n", worker);
}

}  // namespace

void add_node_commands(CLI::App& app, Options& options) {
  CLI::App* nodes = add_command(app, options, "nodes", "List the workers", "holdfast nodes --watch");
  const auto watch = std::make_shared<bool>(false);
  nodes->add_flag("--watch", *watch, "Stay and show changes, until Ctrl-C");
  add_wide_flag(*nodes, options);
  nodes->callback([&options, watch] { list_nodes(options, *watch); });

  const auto worker = std::make_shared<std::string>();
  CLI::App* command = add_command(app, options, "drain", "Let a worker finish its step and leave", "holdfast drain node3-4711");
  command->add_option("worker", *worker, "Worker id, as `holdfast nodes` shows it")->required()->type_name("WORKER");
  command->callback([&options, worker] { drain(options, *worker); });
}

}  // namespace holdfast::ops
