// `holdfast ls`: the jobs, newest first, all of them or those that were asked for.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/command.h"
#include "ops/cli/command/live_view.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"

namespace holdfast::ops {
namespace {

constexpr size_t kOnATerminal = 50;  // without --limit: more scrolls the newest away

struct ListArguments {
  std::string state, name, label, page_token;
  std::optional<size_t> limit;  // 0: all
  bool watch = false;
};

size_t limit_of(const Options& options, const ListArguments& arguments) {
  const bool for_a_person = !options.json && terminal_width(STDOUT_FILENO) > 0;
  const size_t limit = arguments.limit.value_or(for_a_person ? kOnATerminal : 0);
  return limit == 0 ? std::numeric_limits<size_t>::max() : limit;
}

Query query_of(const ListArguments& arguments) {
  Query query;
  if (!arguments.state.empty()) query.emplace_back("state", arguments.state);
  if (!arguments.name.empty()) query.emplace_back("name", arguments.name);
  if (!arguments.label.empty()) query.emplace_back("label", arguments.label);
  if (!arguments.page_token.empty()) query.emplace_back("page_token", arguments.page_token);
  return query;
}

std::string nothing_text(const ListArguments& arguments) {
  const bool all = arguments.state.empty() && arguments.name.empty() && arguments.label.empty();
  return all ? "No jobs yet. Submit one: holdfast submit --train_data_path data/train.bin\n"
             : "No job is like that; `holdfast ls` without filters lists all.\n";
}

std::string table_text(const Listing& jobs, size_t width, bool colour) {
  Table table({"JOB", Column("NAME").shrinks(2, 8).left_out(4), Column("STEP").right(), Column("LOSS").right().left_out(3),
               Column("WORKERS").right().left_out(1), Column("ETA").right().left_out(2), Column("STATE").shrinks(1, 9)});
  for (const Json& job : jobs.items) {
    const std::string state = text_at(job, "state"), name = text_at(job, "name");
    table.add({text_at(job, "id"), name.empty() ? "-" : name, steps_text(job), loss_text(number_at(job, "loss")),
               fmt::format("{}", integer_at(job, "world_size")),
               state == "running" ? duration_text(number_at(job, "eta_s")) : "-",
               Cell(state_text(job), style_of_state(state))});
  }
  std::string text = table.text(width, colour);
  if (!jobs.next_page_token.is_null())
    text += painted(fmt::format("The newest {}; --limit 0 lists all.", jobs.items.size()), Style::kFaint, colour) + "\n";
  return text;
}

void list_jobs(const Options& options, const ListArguments& arguments) {
  const auto api = std::make_shared<Api>(options);
  const Query query = query_of(arguments);
  const size_t limit = limit_of(options, arguments);
  const auto look = [=] {
    const auto jobs = std::make_shared<Listing>(api->list_some("/v1/jobs", "jobs", query, limit));
    return View{{{"jobs", jobs->items}, {"next_page_token", jobs->next_page_token}}, [=](size_t width, bool colour) {
                  return jobs->items.empty() ? nothing_text(arguments) : table_text(*jobs, width, colour);
                }};
  };
  if (arguments.watch) show_live(options, look);
  show_once(options, look());
}

}  // namespace

void add_list_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ListArguments>();
  CLI::App* command =
      add_command(app, options, "ls", "List the jobs, newest first", full_name(&app) + " ls --state running --watch");
  command->add_option("--state", arguments->state, "Only jobs in this state")
      ->check(CLI::IsMember({"queued", "running", "waiting", "paused", "succeeded", "failed", "cancelled"}))
      ->type_name("STATE");
  command->add_option("--name", arguments->name, "Only jobs of exactly this name")->type_name("NAME");
  command->add_option("--label", arguments->label, "Only jobs with this label, whatever its value or with this one")
      ->type_name("KEY[=VALUE]");
  command
      ->add_option("--limit", arguments->limit,
                   fmt::format("At most so many; 0: all [{} on a terminal, else all]", kOnATerminal))
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
  command->add_option("--page_token", arguments->page_token, "Go on where a limited list ended: its next_page_token")
      ->type_name("TOKEN");
  command->add_flag("--watch", arguments->watch, "Stay and show changes, until Ctrl-C");
  add_wide_flag(*command, options);
  command->callback([&options, arguments] { list_jobs(options, *arguments); });
}

}  // namespace holdfast::ops
