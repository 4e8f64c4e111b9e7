// Looking at jobs, and telling them what to do: ls, show, stop, pause, resume, scale.
#include <fmt/format.h>

#include "ops/cli/api.h"
#include "ops/cli/command.h"
#include "ops/cli/format.h"
#include "ops/cli/watch.h"

namespace holdfast::ops {
namespace {

std::string state_text(const Json& job) {
  const std::string reason = text_at(job, "reason");
  return reason.empty() ? text_at(job, "state") : fmt::format("{} ({})", text_at(job, "state"), reason);
}

void list_jobs(const Options& options) {
  Api api(options);
  const Json jobs = api.list("/v1/jobs", "jobs");
  if (options.json) return print_json({{"jobs", jobs}, {"next_page_token", nullptr}});
  if (jobs.empty()) {
    fmt::print("No jobs yet. Submit one: holdfast submit --train_data_path data/train.bin\n");
    return;
  }
  Table table({"JOB", "NAME", "STEP", "LOSS", "WORKERS", "ETA", "STATE"});
  for (const Json& job : jobs) {
    const bool running = text_at(job, "state") == "running";
    table.add({text_at(job, "id"), cut_to(text_at(job, "name", "-"), 24),
               fmt::format("{}/{}", integer_at(job, "step"), integer_at(job, "total_steps")), loss_text(number_at(job, "loss")),
               fmt::format("{}", integer_at(job, "world_size")), running ? duration_text(number_at(job, "eta_s")) : "-",
               state_text(job)});
  }
  table.print();
}

std::string size_text(const Json& spec) {
  return fmt::format("{} layers, {} channels, {} heads, vocabulary {}, block {}", text_at(spec, "n_layer"),
                     text_at(spec, "n_embd"), text_at(spec, "n_head"), text_at(spec, "vocab_size"),
                     text_at(spec, "block_size"));
}

std::string batch_text(const Json& spec) {
  const int64_t batch = integer_at(spec, "batch_size", 1);
  return fmt::format("{} sequences a step, in {} microbatches of {}", integer_at(spec, "global_batch_size"),
                     integer_at(spec, "global_batch_size") / std::max<int64_t>(batch, 1), batch);
}

void show_row(const char* name, const std::string& value) {
  if (!value.empty() && value != "-") fmt::print("{:<18}{}\n", name, value);
}

void show_checkpoint(const Json& job) {
  if (!has(job, "latest_checkpoint")) return show_row("last checkpoint", "none yet");
  const Json& checkpoint = job["latest_checkpoint"];
  show_row("last checkpoint",
           fmt::format("step {} ({} ago)", integer_at(checkpoint, "step"), duration_text(number_at(checkpoint, "age_s"))));
}

void show_workers(const Json& job) {
  if (!has(job, "workers") || job["workers"].empty()) return;
  fmt::print("\n");
  Table table({"RANK", "WORKER", "NODE", "DEVICE"});
  for (const Json& worker : job["workers"]) {
    table.add({text_at(worker, "rank"), text_at(worker, "id"), text_at(worker, "node", "-"), text_at(worker, "device", "-")});
  }
  table.print();
}

void show_job(const Options& options, const std::string& name) {
  Api api(options);
  const Json job = api.get("/v1/jobs/" + api.job_id(name));
  if (options.json) return print_json(job);
  const Json spec = has(job, "spec") ? job["spec"] : Json::object();
  const bool running = text_at(job, "state") == "running";
  show_row("job", text_at(job, "id") + (text_at(job, "name").empty() ? "" : fmt::format(" ({})", text_at(job, "name"))));
  show_row("state", state_text(job));
  show_row("step", fmt::format("{}/{}", integer_at(job, "step"), integer_at(job, "total_steps")));
  show_row("loss", loss_text(number_at(job, "loss")));
  show_row("validation loss", loss_text(number_at(job, "validation_loss")));
  if (running) show_row("speed", rate_text(number_at(job, "tokens_per_second")));
  if (running) show_row("ETA", duration_text(number_at(job, "eta_s")));
  show_row("world size", fmt::format("{}", integer_at(job, "world_size")));
  show_row("generation", fmt::format("{} ({} fault{})", integer_at(job, "generation"), integer_at(job, "restarts"),
                                     integer_at(job, "restarts") == 1 ? "" : "s"));
  if (const int64_t refused = integer_at(job, "refused_steps"); refused > 0)
    show_row("left out", fmt::format("{} step{} whose loss or gradient was not finite", refused, refused == 1 ? "" : "s"));
  show_checkpoint(job);
  if (!text_at(job, "state_hash").empty()) {
    show_row("state hash", fmt::format("{} (after step {})", text_at(job, "state_hash"), integer_at(job, "state_hash_step")));
  }
  if (!spec.empty()) show_row("model", size_text(spec));
  if (!spec.empty()) show_row("batch", batch_text(spec));
  show_row("data", text_at(spec, "train_data_path"));
  show_row("resumed from", text_at(spec, "resume_from"));
  show_row("submitted", time_text(text_at(job, "submitted_at")));
  show_row("started", time_text(text_at(job, "started_at")));
  show_row("finished", time_text(text_at(job, "finished_at")));
  show_workers(job);
}

// Answers of actions are the job as it is now.
void act(const Options& options, const std::string& name, const char* action, const char* said,
         const Json& body = Json::object()) {
  Api api(options);
  const std::string id = api.job_id(name);
  const Json job = api.post(fmt::format("/v1/jobs/{}/{}", id, action), body);
  if (options.json) return print_json(job);
  fmt::print("{}: {}\n", id, said);
}

void add_action(CLI::App& app, Options& options, const char* name, const char* help, const char* said) {
  CLI::App* command = add_command(app, options, name, help, fmt::format("holdfast {} j1", name));
  const auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Job id or name")->required();
  command->callback([=, &options] { act(options, *job, name, said); });
}

struct ScaleArguments {
  std::string job;
  std::optional<int64_t> nodes, min_nodes, max_nodes;
};

void scale(const Options& options, const ScaleArguments& arguments) {
  Json body = Json::object();
  if (arguments.nodes) body = {{"nodes", *arguments.nodes}, {"max_nodes", *arguments.nodes}};
  if (arguments.min_nodes) body["min_nodes"] = *arguments.min_nodes;
  if (arguments.max_nodes) body["max_nodes"] = *arguments.max_nodes;
  if (body.empty())
    throw Failure{kBadInput, "scale to what? Give a number of workers, such as `holdfast scale j1 3`, or --max_nodes 3"};
  act(options, arguments.job, "scale", "scaled; the change takes effect after the step under way", body);
}

void add_scale_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ScaleArguments>();
  CLI::App* command = add_command(app, options, "scale", "Change how many workers a job may have", "holdfast scale j1 3");
  command->add_option("job", arguments->job, "Job id or name")->required();
  command->add_option("workers", arguments->nodes, "So many workers, and not more")->type_name("N");
  command->add_option("--min_nodes", arguments->min_nodes, "With fewer the job waits")->type_name("N");
  command->add_option("--max_nodes", arguments->max_nodes, "It takes no more")->type_name("N");
  command->callback([&options, arguments] { scale(options, *arguments); });
}

}  // namespace

void add_job_commands(CLI::App& app, Options& options) {
  CLI::App* ls = add_command(app, options, "ls", "List the jobs", "holdfast ls");
  ls->callback([&options] { list_jobs(options); });

  const auto job = std::make_shared<std::string>();
  CLI::App* show =
      add_command(app, options, "show", "Show a job: progress, workers, checkpoint, state hash", "holdfast show j1 --json");
  show->add_option("job", *job, "Job id or name")->required();
  show->callback([&options, job] { show_job(options, *job); });

  add_action(app, options, "stop", "End a job after the step under way, with a checkpoint",
             "stopping after the step under way");
  add_action(app, options, "pause", "Write a checkpoint and free the job's workers", "pausing after the step under way");
  add_action(app, options, "resume", "Go on with a paused job", "queued to go on from its checkpoint");
  add_scale_command(app, options);
}

}  // namespace holdfast::ops
