// `holdfast submit`: flags and files into a job spec. The flags are the fields of the spec's table, one to one.
//
// The service judges the spec, not this program: it may be newer, and it names all errors at once.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "ops/cli/api.h"
#include "ops/cli/command.h"
#include "ops/cli/watch.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;

struct SubmitArguments {
  std::string config;
  bool watch = false;
  std::map<std::string, std::string> flags;              // as typed
  std::map<std::string, std::vector<std::string>> maps;  // labels, requires: KEY=VALUE as typed
};

Json read_config(const std::string& path) {
  Json json;
  if (path == "-") {
    json = Json::parse(std::cin, nullptr, false);
  } else {
    std::ifstream file(path);
    if (!file) throw Failure{kBadInput, fmt::format("cannot read {}: {}", path, std::system_category().message(errno))};
    json = Json::parse(file, nullptr, false);
  }
  if (!json.is_object()) {
    throw Failure{
        kBadInput,
        fmt::format("{} is no job spec: expected a JSON object such as {{\"train_data_path\": \"train.bin\"}}", path)};
  }
  return json;
}

// A flag's text as the JSON type of its field. What is no number stays text: the service then names the field and the text.
Json typed(const rendezvous::SpecField& field, const std::string& text) {
  if (field.type != "integer" && field.type != "number") return text;
  const Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_number() ? parsed : Json(text);
}

Json map_of(const std::string& field, const std::vector<std::string>& pairs) {
  Json map = Json::object();
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      throw Failure{kBadInput, fmt::format("--{} {}: expected KEY=VALUE, such as {}", field, pair,
                                           field == "requires" ? "device=hip" : "team=nlp")};
    }
    map[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return map;
}

// A relative path means the file here when there is one here; else it is left to mean one below the workers' --data_root.
void make_absolute(Json& spec, const char* field, bool always) {
  if (!spec.contains(field) || !spec[field].is_string()) return;
  const auto path = spec[field].get<std::string>();
  if (path.empty() || path.front() == '/' || path.find("://") != std::string::npos) return;
  std::error_code ignored;
  if (always || fs::exists(path, ignored)) spec[field] = fs::absolute(path).lexically_normal().string();
}

Json spec_of(const SubmitArguments& arguments) {
  Json spec = arguments.config.empty() ? Json::object() : read_config(arguments.config);
  for (const auto& field : rendezvous::job_spec_fields()) {
    const auto flag = arguments.flags.find(field.name);
    if (flag != arguments.flags.end()) spec[field.name] = typed(field, flag->second);
  }
  for (const auto& [field, pairs] : arguments.maps) {
    if (!pairs.empty()) spec[field] = map_of(field, pairs);
  }
  make_absolute(spec, "train_data_path", false);
  make_absolute(spec, "valid_data_path", false);
  make_absolute(spec, "checkpoint_store", true);
  if (text_at(spec, "resume_from").find('/') != std::string::npos) make_absolute(spec, "resume_from", false);
  return spec;
}

void submit(const Options& options, const SubmitArguments& arguments) {
  Api api(options);
  const Json spec = spec_of(arguments);
  const Json job = api.post_once("/v1/jobs", spec);
  const std::string id = text_at(job, "id");
  if (!options.json) {
    fmt::print("{}\n", id);
  } else if (!arguments.watch) {
    print_json(job);
  }
  std::fflush(stdout);
  if (!arguments.watch) return;
  const WatchOutcome outcome = watch_job(options, id, {.from_the_beginning = true});
  if (options.json) print_json(outcome.job);
  if (outcome.exit_code != kDone) throw Failure{outcome.exit_code, ""};
}

void add_job_flags(CLI::App& command, SubmitArguments& arguments) {
  for (const auto& field : rendezvous::job_spec_fields()) {
    const bool has_default = !field.default_value.empty();
    const std::string help = fmt::format("{} [{}{}]", field.help, has_default ? field.default_value + "; " : "", field.range);
    const std::string flag = "--" + field.name;
    if (field.type == "map") {
      command.add_option(flag, arguments.maps[field.name], help)->type_name("KEY=VALUE")->allow_extra_args(false)->group("Job");
      continue;
    }
    command
        .add_option_function<std::string>(
            flag, [&arguments, name = field.name](const std::string& text) { arguments.flags[name] = text; }, help)
        ->type_name(field.type == "string"    ? "TEXT"
                    : field.type == "integer" ? "INT"
                                              : "NUMBER")
        ->group("Job");
  }
}

}  // namespace

void add_submit_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<SubmitArguments>();
  CLI::App* command =
      add_command(app, options, "submit", "Submit a training job; prints its id",
                  "holdfast submit --train_data_path data/train.bin --model tiny --nodes 2 --total_steps 2000 --watch");
  command->add_option("--config", arguments->config, "Job spec as a JSON file (- for stdin); flags win over it")
      ->type_name("FILE");
  command->add_flag("--watch", arguments->watch, "Stay and show the progress; the exit code is the job's");
  add_job_flags(*command, *arguments);
  command->callback([&options, arguments] { submit(options, *arguments); });
}

}  // namespace holdfast::ops
