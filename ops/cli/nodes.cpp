// Workers: who is there, and asking one to leave.
#include <fmt/format.h>

#include "ops/cli/api.h"
#include "ops/cli/command.h"
#include "ops/cli/format.h"

namespace holdfast::ops {
namespace {

std::string labels_text(const Json& node) {
  std::string text;
  if (!has(node, "labels")) return text;
  for (const auto& [key, value] : node["labels"].items())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

void list_nodes(const Options& options) {
  Api api(options);
  const Json nodes = api.list("/v1/nodes", "nodes");
  if (options.json) return print_json({{"nodes", nodes}, {"next_page_token", nullptr}});
  if (nodes.empty()) {
    fmt::print("No workers yet. Start one on each machine: holdfast-worker --server {}\n", server_of(options));
    return;
  }
  Table table({"WORKER", "STATE", "PHASE", "JOB", "STEP", "SEEN", "MEMORY", "DEVICE"});
  for (const Json& node : nodes) {
    const int64_t step = integer_at(node, "step", -1);
    const int64_t threads = integer_at(node, "threads");
    const double held_back_s = number_at(node, "held_back_s").value_or(0);
    table.add({text_at(node, "id"),
               held_back_s > 0 ? fmt::format("held back {}", duration_text(held_back_s)) : text_at(node, "state"),
               text_at(node, "phase"), text_at(node, "job").empty() ? "-" : text_at(node, "job"),
               step < 0 ? "-" : fmt::format("{}", step), duration_text(number_at(node, "last_seen_s")),
               bytes_text(number_at(node, "memory_bytes")),
               fmt::format("{}{} {}{}{}", text_at(node, "device"), threads > 0 ? fmt::format(" x{}", threads) : "",
                           text_at(node, "device_model"), labels_text(node).empty() ? "" : "  ", labels_text(node))});
  }
  table.print();
  for (const Json& node : nodes) {
    if (const std::string why = text_at(node, "held_back_reason"); !why.empty()) fmt::print("{}\n", why);
  }
}

void drain(const Options& options, const std::string& worker) {
  Api api(options);
  const Json node = api.post(fmt::format("/v1/nodes/{}/drain", percent_encoded(worker)));
  if (options.json) return print_json(node);
  fmt::print("{}: leaves after the step under way; its process ends\n", worker);
}

}  // namespace

void add_node_commands(CLI::App& app, Options& options) {
  CLI::App* nodes = add_command(app, options, "nodes", "List the workers", "holdfast nodes");
  nodes->callback([&options] { list_nodes(options); });

  const auto worker = std::make_shared<std::string>();
  CLI::App* command = add_command(app, options, "drain", "Let a worker finish its step and leave", "holdfast drain node3-4711");
  command->add_option("worker", *worker, "Worker id, as `holdfast nodes` shows it")->required();
  command->callback([&options, worker] { drain(options, *worker); });
}

}  // namespace holdfast::ops
