// The commands that steer a job: stop, pause, resume, scale.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"

namespace holdfast::ops {
namespace {

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
  add_job_argument(*command, *job);
  command->callback([=, &options] { act(options, *job, name, said); });
}

struct StopArguments {
  std::string job;
  bool no_checkpoint = false;
};

void add_stop_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<StopArguments>();
  CLI::App* command =
      add_command(app, options, "stop", "End a job after the step under way, with a checkpoint", "holdfast stop j1");
  add_job_argument(*command, arguments->job);
  command->add_flag("--no_checkpoint", arguments->no_checkpoint, "Keep nothing of the steps since its last checkpoint");
  command->callback([&options, arguments] {
    const Json body = arguments->no_checkpoint ? Json{{"checkpoint", false}} : Json::object();
    act(options, arguments->job, "stop", "stopping after the step under way", body);
  });
}

struct ScaleArguments {
  std::string job;
  std::optional<int64_t> nodes, min_nodes, max_nodes, replicas;
};

void scale(const Options& options, const ScaleArguments& arguments) {
  Json body = Json::object();
  if (arguments.nodes) body = {{"nodes", *arguments.nodes}, {"max_nodes", *arguments.nodes}};
  if (arguments.min_nodes) body["min_nodes"] = *arguments.min_nodes;
  if (arguments.max_nodes) body["max_nodes"] = *arguments.max_nodes;
  if (arguments.replicas) body["replicas"] = *arguments.replicas;
  if (body.empty())
    throw Failure{kBadInput, "scale to what? Give a number of workers, such as `holdfast scale j1 3`, or --max_nodes 3"};
  act(options, arguments.job, "scale", "scaled; the change takes effect after the step under way", body);
}

void add_scale_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<ScaleArguments>();
  CLI::App* command =
      add_command(app, options, "scale", "Change how many workers a job may have, or its replicas", "holdfast scale j1 3");
  add_job_argument(*command, arguments->job);
  command->add_option("workers", arguments->nodes, "So many workers, and not more")->type_name("N");
  command->add_option("--min_nodes", arguments->min_nodes, "With fewer the job waits")->type_name("N");
  command->add_option("--max_nodes", arguments->max_nodes, "It takes no more")->type_name("N");
  command->add_option("--replicas", arguments->replicas, "So many workers have each part of a divided state (--shard)")
      ->type_name("N");
  command->callback([&options, arguments] { scale(options, *arguments); });
}

}  // namespace

void add_job_actions(CLI::App& app, Options& options) {
  add_stop_command(app, options);
  add_action(app, options, "pause", "Write a checkpoint and free the job's workers", "pausing after the step under way");
  add_action(app, options, "resume", "Go on with a paused job", "queued to go on from its checkpoint");
  add_scale_command(app, options);
}

}  // namespace holdfast::ops
