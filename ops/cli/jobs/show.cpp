// `holdfast show`: one job, for people, as JSON, as a spec to submit again, or as it goes on.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/jobs/watch.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

std::string size_text(const Json& spec) {
  return fmt::format("{} layers, {} channels, {} heads, vocabulary {}, block {}{}", text_at(spec, "n_layer"),
                     text_at(spec, "n_embd"), text_at(spec, "n_head"), text_at(spec, "vocab_size"), text_at(spec, "block_size"),
                     text_at(spec, "tied_head") == "off" ? ", a head of its own" : "");
}

std::string batch_text(const Json& spec) {
  const int64_t batch = integer_at(spec, "batch_size", 1);
  return fmt::format("{} sequences a step, in {} microbatches of {}", integer_at(spec, "global_batch_size"),
                     integer_at(spec, "global_batch_size") / std::max<int64_t>(batch, 1), batch);
}

void show_row(const char* name, const std::string& value, Style style = Style::kPlain) {
  if (value.empty() || value == "-") return;
  fmt::print("{:<18}{}\n", name, painted(printable(value), style, colour_wanted(STDOUT_FILENO)));
}

void show_checkpoint(const Json& job) {
  if (!has(job, "latest_checkpoint")) return show_row("last checkpoint", "none yet");
  const Json& checkpoint = job["latest_checkpoint"];
  show_row("last checkpoint",
           fmt::format("step {} ({} ago)", integer_at(checkpoint, "step"), duration_text(number_at(checkpoint, "age_s"))));
  if (!has(checkpoint, "copy")) return;
  const Json& copy = checkpoint["copy"];
  const bool is_copied = has(copy, "step");
  const int64_t behind = is_copied ? integer_at(checkpoint, "step") - integer_at(copy, "step") : 0;
  show_row("its copy", fmt::format("in {}: {}", text_at(copy, "place"),
                                   !is_copied    ? "none yet"
                                   : behind <= 0 ? fmt::format("step {}", integer_at(copy, "step"))
                                                 : fmt::format("step {}, {} steps behind", integer_at(copy, "step"), behind)));
}

// "optimizer", or what was chosen for its workers: "optimizer (auto)".
std::string shard_text(const Json& job) {
  const std::string asked = text_at(job.at("spec"), "shard");
  return asked == "auto" ? text_at(job, "shard", "not chosen yet") + " (auto)" : asked;
}

// "each part on 2 workers of 2 nodes"; and what the loss of these would cost, where they are fewer than were asked for.
std::string division_text(const Json& job) {
  if (!has(job, "division")) return has(job, "spec") && text_at(job["spec"], "shard") == "auto" ? shard_text(job) : "";
  const Json& division = job["division"];
  const int64_t copies = integer_at(division, "copies"), wanted = integer_at(division, "copies_wanted");
  const std::string text = fmt::format("{}: each part on {} of {}", shard_text(job), rendezvous::counted(copies, "worker"),
                                       rendezvous::counted(integer_at(division, "nodes"), "node"));
  const int64_t to_come = integer_at(division, "bytes_to_come");
  const std::string coming = to_come > 0 ? fmt::format(", {} to come", bytes_text(static_cast<double>(to_come))) : "";
  if (copies >= wanted) return text + coming;
  const Json checkpoint = has(job, "latest_checkpoint") ? job["latest_checkpoint"] : Json();
  const std::string where = checkpoint.is_null() ? "the beginning" : fmt::format("step {}", integer_at(checkpoint, "step"));
  return fmt::format("{}, {} asked for{}; {} would take the job back to {}", text, wanted, coming,
                     copies == 1 ? "its loss" : "their loss", where);
}

void show_workers(const Options& options, const Json& job) {
  if (!has(job, "workers") || job["workers"].empty()) return;
  fmt::print("\n");
  std::vector<Column> columns = {Column("RANK").right(), Column("WORKER").shrinks(2, 8),
                                 Column("NODE").shrinks(1, 6).left_out(2), Column("DEVICE").left_out(1)};
  if (has(job, "division")) columns.push_back(Column("OWNS").right());
  Table table(std::move(columns));
  for (const Json& worker : job["workers"]) {
    std::vector<Cell> row = {text_at(worker, "rank", "-"), text_at(worker, "id"), text_at(worker, "node", "-"),
                             text_at(worker, "device", "-")};
    if (has(job, "division")) row.emplace_back(has(worker, "owned_bytes") ? bytes_text(number_at(worker, "owned_bytes")) : "-");
    table.add(std::move(row));
  }
  table.print(options.wide);
}

void show_progress(const Json& job) {
  const std::string state = text_at(job, "state");
  const bool running = state == "running";
  const int64_t step = integer_at(job, "step"), total = integer_at(job, "total_steps");
  show_row("state", state_text(job), style_of_state(state));
  if (has(job, "waits_for") && text_at(job["waits_for"], "text") != text_at(job, "reason"))
    show_row("waits for", text_at(job["waits_for"], "text"));
  if (serves(job)) {
    show_row("replicas", fmt::format("{}", integer_at(job, "world_size")));
    return show_row("generation", fmt::format("{} ({})", integer_at(job, "generation"),
                                              rendezvous::counted(integer_at(job, "restarts"), "fault")));
  }
  show_row("step", fmt::format("{}{}", steps_text(job), total > 0 ? fmt::format(" ({}%)", 100 * step / total) : ""));
  show_row("loss", loss_text(number_at(job, "loss")));
  show_row("validation loss", loss_text(number_at(job, "validation_loss")));
  if (running) show_row("speed", rate_text(number_at(job, "tokens_per_second")));
  if (running) show_row("ETA", duration_text(number_at(job, "eta_s")));
  show_row("world size", fmt::format("{}", integer_at(job, "world_size")));
  show_row("generation",
           fmt::format("{} ({})", integer_at(job, "generation"), rendezvous::counted(integer_at(job, "restarts"), "fault")));
  if (const int64_t refused = integer_at(job, "refused_steps"); refused > 0)
    show_row("left out", fmt::format("{} whose loss or gradient was not finite", rendezvous::counted(refused, "step")));
  show_checkpoint(job);
  show_row("divided", division_text(job));
  if (!text_at(job, "state_hash").empty()) {
    show_row("state hash", fmt::format("{} (after step {})", text_at(job, "state_hash"), integer_at(job, "state_hash_step")));
  }
}

void show_for_people(const Options& options, const Json& job) {
  const Json spec = has(job, "spec") ? job["spec"] : Json::object();
  show_row("job", text_at(job, "id") + (text_at(job, "name").empty() ? "" : fmt::format(" ({})", text_at(job, "name"))),
           Style::kBold);
  show_progress(job);
  show_row("labels", labels_text(has(job, "labels") ? job : spec, ", "));
  if (!spec.empty()) show_row("model", size_text(spec));
  if (serves(job)) {
    show_row("serves", text_at(spec, "init_from") + (text_at(spec, "follow") == "on" ? " and newer ones" : ""));
    show_row("precision", text_at(spec, "precision"));
  } else if (!spec.empty()) {
    show_row("batch", batch_text(spec));
  }
  show_row("data", text_at(spec, "train_data_path"));
  if (!serves(job)) show_row("weights from", text_at(spec, "init_from"));
  show_row("resumed from", text_at(spec, "resume_from"));
  show_row("submitted", time_text(text_at(job, "submitted_at")));
  show_row("started", time_text(text_at(job, "started_at")));
  show_row("finished", time_text(text_at(job, "finished_at")));
  show_workers(options, job);
}

struct ShowArguments {
  std::string job;
  bool spec = false, watch = false;
};

void show_job(const Options& options, const ShowArguments& arguments) {
  Api api(options);
  const std::string id = api.job_id(arguments.job);
  if (arguments.watch) {
    const WatchOutcome outcome = watch_job(options, id, {.on_stdout = !options.json});
    if (options.json) print_json(outcome.job);
    if (outcome.exit_code != kDone) throw Failure{outcome.exit_code, ""};
    return;
  }
  const Json job = api.get("/v1/jobs/" + id);
  if (arguments.spec) return print_json(job.at("spec"));
  if (options.json) return print_json(job);
  show_for_people(options, job);
}

}  // namespace

void add_show_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ShowArguments>();
  CLI::App* command =
      add_command(app, options, "show", "Show a job: progress, workers, checkpoint, state hash",
                  full_name(&app) + " show j1 --json\n  holdfast show j1 --spec | holdfast submit --config - --seed 2");
  add_job_argument(*command, arguments->job);
  CLI::Option* spec = command->add_flag("--spec", arguments->spec, "The job's spec alone, as JSON that submit --config takes");
  command->add_flag("--watch", arguments->watch, "Stay and show the progress until the job ends; the exit code is the job's")
      ->excludes(spec);
  add_wide_flag(*command, options);
  command->callback([&options, arguments] { show_job(options, *arguments); });
}

}  // namespace holdfast::ops
