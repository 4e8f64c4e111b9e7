// `holdfast store copy`: a service's database, from one place or engine to another.
#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "rendezvous/process/store_copy.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

void copy(const Options& options, const std::string& from, const std::string& to) {
  umask(0077);  // the database holds secrets
  const auto report = rendezvous::copy_store(from, to);
  if (!report) throw Failure{kBadInput, report.error()};
  if (options.json) {
    Json tables = Json::object();
    for (const auto& [table, rows] : report->tables) tables[table] = rows;
    return print_json({{"from", from}, {"to", to}, {"rows", tables}});
  }
  int64_t all = 0;
  for (const auto& [table, rows] : report->tables) {
    if (rows > 0) fmt::print("{:<20} {:>12}\n", table, count_text(rows));
    all += rows;
  }
  fmt::print("{} copied, read again in both places and compared: they are the same\n",
             fmt::format("{} {}", count_text(all), rendezvous::plural(all, "row")));
}

}  // namespace

void add_store_commands(CLI::App& app, Options& options) {
  CLI::App* store = add_group(app, "store", "Move a service's database to another place or engine",
                              "holdfast store copy --from /var/lib/holdfast --to postgresql://holdfast@db1/holdfast");
  const auto from = std::make_shared<std::string>(), to = std::make_shared<std::string>();
  CLI::App* command =
      add_local_command(*store, options, "copy", "Copy a stopped service's database to another place or engine, and compare",
                        "holdfast store copy --from /var/lib/holdfast --to postgresql://holdfast@db1/holdfast");
  command->add_option("--from", *from, "Data directory of a service, or postgresql://USER@HOST/DATABASE")
      ->required()
      ->type_name("PLACE");
  command->add_option("--to", *to, "The same; it may have no jobs yet")->required()->type_name("PLACE");
  command->callback([&options, from, to] { copy(options, *from, *to); });
}

}  // namespace holdfast::ops
