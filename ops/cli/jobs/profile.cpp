// `holdfast profile`: has a running job record its next steps, writes them as a trace, and prints the largest costs.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/quantities.h"
#include "ops/cli/terminal/table.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using rendezvous::counted;

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr std::chrono::minutes kTraceTime{5};
constexpr double kAlike = 1.1;  // a rank that takes longer than this part of the mean is named

struct ProfileArguments {
  std::string job, output;
  int64_t steps = 20;
};

// "all 2 ranks", "rank 0", "2 ranks, rank 1 the longest: 14 ms".
std::string where_text(const Json& cost, size_t ranks_in_all) {
  const Json& ranks = cost.at("ranks");
  if (ranks.size() == 1) return fmt::format("rank {}", integer_at(ranks[0], "rank"));
  const Json* longest = &ranks[0];
  for (const Json& rank : ranks) {
    if (rank.at("seconds") > longest->at("seconds")) longest = &rank;
  }
  const double seconds = longest->at("seconds");
  const std::string all = fmt::format("{}{} ranks", ranks.size() == ranks_in_all ? "all " : "", ranks.size());
  if (seconds <= kAlike * cost.at("seconds").get<double>()) return all;
  return fmt::format("{}, rank {} the longest: {}", all, integer_at(*longest, "rank"), seconds_text(seconds));
}

void print_costs(const Json& profile, bool wide) {
  Table table({Column("COST").shrinks(1, 20), "THREAD", Column("A STEP").right(), Column("SHARE").right(),
               Column("WHERE").shrinks(2, 12)});
  for (const Json& cost : profile.at("result").at("costs")) {
    table.add({printable(text_at(cost, "name")), printable(text_at(cost, "thread")), seconds_text(cost.at("seconds")),
               percent_text(cost.at("share")), where_text(cost, profile.at("ranks").size())});
  }
  table.print(wide);
}

// The widest error of the clocks; none where there is one rank.
std::string clocks_text(const Json& ranks) {
  double error_us = 0;
  for (const Json& rank : ranks) error_us = std::max(error_us, number_at(rank, "clock_error_us").value_or(0));
  return error_us > 0 ? fmt::format(", clocks within {}", seconds_text(error_us / 1e6)) : "";
}

void print_result(const Json& profile, bool wide) {
  const Json &result = profile.at("result"), &ranks = profile.at("ranks");
  int64_t here = 0;
  for (const Json& rank : ranks) here += text_at(rank, "part") == "here" ? 1 : 0;
  fmt::print("{}: a step takes {} (mean of {}, {} to {}, on {}{})\n", text_at(profile, "job"),
             seconds_text(result.at("step_s")), counted(integer_at(result, "steps"), "step"), integer_at(result, "first_step"),
             integer_at(result, "last_step"), counted(here, "rank"), clocks_text(ranks));
  for (const Json& rank : ranks) {
    const std::string why = printable(text_at(rank, "reason"));
    if (!why.empty())
      fmt::print("Rank {} ({}) {}: {}\n", integer_at(rank, "rank"), text_at(rank, "worker"),
                 text_at(rank, "part") == "here" ? "ended early" : "is missing", why);
    if (const int64_t dropped = integer_at(rank, "dropped_spans"); dropped > 0)
      fmt::print("Rank {} had no room for {}: its costs are of the steps before; record fewer steps\n",
                 integer_at(rank, "rank"), counted(dropped, "span"));
  }
  print_costs(profile, wide);
  fmt::print("Times are without what is listed within them; threads run side by side.\n");
}

// A service that is away comes back without the profile, so it is not waited for.
Json look(Api& api, const std::string& job) {
  try {
    return patiently([&] { return api.get(fmt::format("/v1/jobs/{}/profile", job)); });
  } catch (const Failure& failure) {
    throw Failure{failure.exit_code == kBadInput ? kJobFailed : failure.exit_code,
                  fmt::format("the profile of {} is lost: {}", job, failure.message)};
  }
}

// The profile with this id, once it is done. Throws a Failure when it failed, or is no longer there.
Json wait_until_done(Api& api, const std::string& job, const std::string& id) {
  for (;; std::this_thread::sleep_for(kPoll)) {
    Json profile = look(api, job);
    if (text_at(profile, "id") != id)
      throw Failure{kJobFailed, fmt::format("profile {} of {} is gone: somebody has begun another one", id, job)};
    const std::string state = text_at(profile, "state");
    if (state == "done") return profile;
    if (state == "failed") throw Failure{kJobFailed, fmt::format("no profile of {}: {}", job, text_at(profile, "reason"))};
  }
}

// Before the job is asked to record anything.
void check_output(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (std::filesystem::is_directory(folder) && !std::filesystem::is_directory(path)) return;
  throw Failure{kBadInput, fmt::format("--output {}: expected a file in a folder that is there", path.string())};
}

// Why it was not written; nothing where it was.
std::optional<Failure> write_trace(Api& api, const Json& profile, const std::string& path) {
  const std::string target = fmt::format("/v1/jobs/{}/profile/trace?id={}", text_at(profile, "job"), text_at(profile, "id"));
  try {
    const std::string trace = patiently([&] {
      auto reply = api.client().request("GET", target, {}, "application/json", kTraceTime);
      if (!reply) throw failure_of(reply.error());
      return std::move(reply->body);
    });
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << trace << std::flush;
    if (file) return std::nullopt;
    return Failure{kJobFailed, fmt::format("{}: the trace's {} bytes cannot be written: choose another file with --output",
                                           path, trace.size())};
  } catch (const Failure& failure) {
    return Failure{kJobFailed, fmt::format("the costs are all there is, the trace did not come: {}", failure.message)};
  }
}

void profile(const Options& options, const ProfileArguments& arguments) {
  Api api(options);
  const std::string job = api.job_id(arguments.job);
  const std::string path = arguments.output.empty() ? job + "-profile.json" : arguments.output;
  check_output(path);
  const Json begun = api.post(fmt::format("/v1/jobs/{}/profile", job), {{"steps", arguments.steps}});
  const int64_t first = integer_at(begun, "from_step");
  fmt::print(stderr, "Recording steps {} to {} of {} on {} …\n", first, first + integer_at(begun, "steps") - 1, job,
             counted(begun.at("ranks").size(), "rank"));
  Json done = wait_until_done(api, job, text_at(begun, "id"));
  const std::optional<Failure> unwritten = write_trace(api, done, path);
  if (!unwritten) done["trace"] = path;
  if (options.json) {
    print_json(done);
  } else {
    print_result(done, options.wide);
  }
  if (unwritten) throw *unwritten;
  if (options.json) return;
  fmt::print("The trace is in {}: ui.perfetto.dev opens it, and chrome://tracing.\n", path);
}

}  // namespace

void add_profile_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* command =
      add_command(app, options, "profile", "Record what a running job's ranks do for some steps; the ten largest costs",
                  "holdfast profile j1 --steps 20 --output trace.json");
  add_job_argument(*command, arguments->job);
  command->add_option("--steps", arguments->steps, "So many of its next steps")
      ->check(CLI::Range(1, 200))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--output", arguments->output, "Where the trace goes; JOB-profile.json without it")->type_name("FILE");
  add_wide_flag(*command, options);
  command->callback([&options, arguments] { profile(options, *arguments); });
}

}  // namespace holdfast::ops
