// `holdfast jobs`: ls and show under the name where people look for them, and diff.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/command.h"
#include "ops/cli/jobs/diff.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

struct DiffArguments {
  std::string a, b;
};

std::string value_text(const Difference& difference, const Json& value) {
  if (value.is_null()) return "-";
  if (difference.name == "duration_s") return duration_text(value.get<double>());
  if (difference.name.ends_with("loss")) return loss_text(rendezvous::number_from_json(value));
  return printable(value.is_string() ? value.get<std::string>() : rendezvous::json_text(value));
}

// Values are never cut, because the cut part could be the difference; long ones stand below each other.
void print_differences(const char* heading, const std::vector<Difference>& list, const Options& options) {
  if (list.empty()) return;
  const bool colour = colour_wanted(STDOUT_FILENO);
  const size_t width = options.wide ? 0 : terminal_width(STDOUT_FILENO);
  size_t names = columns(heading), values = 0, second = 0;
  for (const Difference& one : list) {
    names = std::max(names, columns(one.name));
    values = std::max(values, columns(value_text(one, one.a)));
    second = std::max(second, columns(value_text(one, one.b)));
  }
  const bool beside = width == 0 || names + values + second + 4 <= width;
  fmt::print("{}\n", painted(heading, Style::kBold, colour));
  for (const Difference& one : list) {
    const std::string a = value_text(one, one.a), b = value_text(one, one.b);
    auto [marked_a, marked_b] = colour ? with_differing_part_bold(a, b) : std::pair(a, b);
    const std::string room(beside ? values - columns(a) + 2 : 0, ' ');
    fmt::print("{}  {}{}{}\n", padded(one.name, names), marked_a, beside ? room : "\n" + std::string(names + 2, ' '), marked_b);
  }
}

void diff(const Options& options, const DiffArguments& arguments) {
  Api api(options);
  const Json a = api.get("/v1/jobs/" + api.job_id(arguments.a)), b = api.get("/v1/jobs/" + api.job_id(arguments.b));
  const JobDiff found = diff_of(a, b);
  if (options.json) return print_json(json_of(found, a, b));
  const auto title = [](const Json& job) {
    return text_at(job, "id") + (text_at(job, "name").empty() ? "" : fmt::format(" ({})", printable(text_at(job, "name"))));
  };
  fmt::print("{} and {}{}\n", title(a), title(b),
             found.spec.empty() ? ": the same spec"
                                : fmt::format(": {} of the spec differ{}", rendezvous::counted(found.spec.size(), "field"),
                                              found.spec.size() == 1 ? "s" : ""));
  print_differences("SPEC", found.spec, options);
  print_differences("RESULT", found.result, options);
  if (found.same_bits)
    fmt::print("The same bits after step {}: state hash {}\n", integer_at(a, "state_hash_step"), text_at(a, "state_hash"));
}

}  // namespace

void add_jobs_group(CLI::App& app, Options& options) {
  CLI::App* jobs = add_group(app, "jobs", "Look at jobs: ls and show, and diff for two of them", "holdfast jobs diff j1 j2");
  add_list_command(*jobs, options);
  add_show_command(*jobs, options);
  const auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = add_command(*jobs, options, "diff", "What differs between two jobs' specs, and in what came of them",
                                  "holdfast jobs diff j1 j2");
  command->add_option("a", arguments->a, "Job id or name")->required()->type_name("JOB");
  command->add_option("b", arguments->b, "Another one")->required()->type_name("JOB");
  add_wide_flag(*command, options);
  command->callback([&options, arguments] { diff(options, *arguments); });
}

}  // namespace holdfast::ops
