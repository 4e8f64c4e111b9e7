#include "ops/cli/help/completion.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command_tree.h"
#include "ops/cli/help/topics.h"
#include "ops/cli/jobs/text.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/text_width.h"

namespace holdfast::ops {
namespace {

constexpr std::chrono::milliseconds kTabPatience{700};  // of a person who pressed TAB
constexpr size_t kHelpWidth = 60;

// Where the cursor is.
struct Place {
  CLI::App* command = nullptr;
  size_t arguments = 0;              // that stand before it
  CLI::Option* expecting = nullptr;  // the option that the next word is the value of
  bool flags_end = false;            // "--" was said
  std::set<const CLI::Option*> used;
};

std::string with_underscores(std::string flag) {
  if (flag.starts_with("--")) std::replace(flag.begin() + 2, flag.end(), '-', '_');
  return flag;
}

CLI::Option* find_option(CLI::App& command, const std::string& flag) {
  const std::string wanted = with_underscores(flag);
  for (CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = names_of(*option);
    if (std::ranges::find(names, wanted) != names.end()) return option;
  }
  return nullptr;
}

CLI::App* find_below(CLI::App& command, const std::string& name) {
  for (CLI::App* below : command.get_subcommands([](CLI::App*) { return true; })) {
    if (below->get_name() == name) return below;
  }
  return nullptr;
}

// --server and --token are taken now: completion itself asks the service.
void take_value(CLI::Option& option, const std::string& value) {
  if (option.get_group() != "Service") return;
  option.add_result(value);
  option.run_callback();
}

void step_over_flag(Place& place, const std::string& word) {
  const size_t equals = word.find('=');
  CLI::Option* option = find_option(*place.command, word.substr(0, equals));
  if (option == nullptr) return;
  place.used.insert(option);
  if (!takes_value(*option)) return;
  if (equals == std::string::npos) {
    place.expecting = option;
  } else {
    take_value(*option, word.substr(equals + 1));
  }
}

void step_over(Place& place, const std::string& word) {
  if (place.expecting != nullptr) {
    take_value(*place.expecting, word);
    place.expecting = nullptr;
  } else if (word == "--") {
    place.flags_end = true;
  } else if (!place.flags_end && word.size() > 1 && word.starts_with('-')) {
    step_over_flag(place, word);
  } else if (CLI::App* below = place.arguments == 0 ? find_below(*place.command, word) : nullptr; below != nullptr) {
    place.command = below;
  } else {
    ++place.arguments;
  }
}

// The positional argument that the next word would be, or null.
const CLI::Option* argument_at(const Place& place) {
  const auto arguments = arguments_of(*place.command);
  if (arguments.empty()) return nullptr;
  if (place.arguments < arguments.size()) return arguments[place.arguments];
  return may_repeat(*arguments.back()) ? arguments.back() : nullptr;
}

std::vector<Candidate> topics(CLI::App& command) {
  std::vector<Candidate> all;
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) root = root->get_parent();
  for (const HelpTopic& topic : help_topics()) all.push_back({topic.name, topic.title});
  for (const CLI::App* one : commands_below(*root)) all.push_back({one->get_name(), one->get_description()});
  for (const auto& field : rendezvous::job_spec_fields()) all.push_back({field.name, field.help});
  return all;
}

// The candidates for the value of `option`.
Completions values_of(const CLI::Option& option, CLI::App& command, const AskService& ask) {
  Completions found;
  for (const std::string& choice : choices_of(option)) found.candidates.push_back({choice, ""});
  const std::string value = value_name_of(option);
  if (value == "FILE" || value == "PLACE") found.files = Completions::Files::kFiles;
  if (value == "DIR") found.files = Completions::Files::kDirectories;
  if (value == "JOB" || value == "WORKER" || value == "DATASET")
    std::ranges::move(ask(value), std::back_inserter(found.candidates));
  if (value == "TOPIC") found.candidates = topics(command);
  if (option.get_single_name() == "resume_from")
    found.candidates.push_back({"latest", "The newest checkpoint of the newest job like it"});
  if (const std::string name = option.get_single_name(); name == "train_data_path" || name == "valid_data_path") {
    for (const Candidate& set : ask("DATASET")) found.candidates.push_back({"data:" + set.word, set.help});
  }
  if (value == "PLACE") {
    for (const Candidate& job : ask("JOB")) found.candidates.push_back({"job:" + job.word, job.help});
  }
  return found;
}

// Flags as they are typed here: with hyphens, where the person does so.
std::vector<Candidate> flags_at(const Place& place, const std::string& typed) {
  const bool hyphens = typed.size() > 2 && typed.find('-', 2) != std::string::npos;
  std::vector<Candidate> flags;
  for (const CLI::Option* option : options_of(*place.command)) {
    if (place.used.contains(option) && !may_repeat(*option)) continue;
    for (std::string name : names_of(*option)) {
      if (hyphens) std::ranges::replace(name, '_', '-');
      flags.push_back({name, option->get_description()});
    }
  }
  return flags;
}

Completions at(Place& place, const std::string& typed, const AskService& ask) {
  if (place.expecting != nullptr) return values_of(*place.expecting, *place.command, ask);
  const size_t equals = typed.find('=');
  if (!place.flags_end && typed.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = find_option(*place.command, typed.substr(0, equals));
    if (option == nullptr || !takes_value(*option)) return {};
    Completions found = values_of(*option, *place.command, ask);
    for (Candidate& candidate : found.candidates) candidate.word = typed.substr(0, equals + 1) + candidate.word;
    return found;
  }
  Completions found;
  if (!place.flags_end && typed.starts_with('-')) {
    found.candidates = flags_at(place, typed);
    return found;
  }
  if (place.arguments == 0) {
    for (const CLI::App* below : commands_below(*place.command))
      found.candidates.push_back({below->get_name(), below->get_description()});
  }
  if (const CLI::Option* argument = argument_at(place)) return values_of(*argument, *place.command, ask);
  if (found.candidates.empty() && !place.flags_end) found.candidates = flags_at(place, typed);
  return found;
}

std::vector<Candidate> jobs_of(const Json& page) {
  std::vector<Candidate> found;
  std::set<std::string> names;
  for (const Json& job : page.value("jobs", Json::array())) {
    const std::string id = text_at(job, "id"), name = text_at(job, "name");
    const std::string progress = text_at(job, "state") + (serves(job) ? ", serves" : fmt::format(", step {}", steps_text(job)));
    found.push_back({id, name.empty() ? progress : fmt::format("{}, {}", name, progress)});
    if (!name.empty() && names.insert(name).second) found.push_back({name, fmt::format("{}, {}", id, progress)});
  }
  return found;
}

std::vector<Candidate> workers_of(const Json& page) {
  std::vector<Candidate> found;
  for (const Json& node : page.value("nodes", Json::array()))
    found.push_back({text_at(node, "id"), fmt::format("{}, {}", text_at(node, "state"), text_at(node, "device"))});
  return found;
}

std::vector<Candidate> data_sets_of(const Json& page) {
  std::vector<Candidate> found;
  for (const Json& set : page.value("data_sets", Json::array())) {
    if (has(set, "name"))
      found.push_back({text_at(set, "name"), fmt::format("{} tokens, pushed {}", count_text(integer_at(set, "tokens")),
                                                         time_text(text_at(set, "pushed_at")))});
  }
  return found;
}

std::vector<Candidate> ask_service(const Options& options, const std::string& kind) {
  rendezvous::HttpClient client(server_of(options), token_of(options));
  const char* list = kind == "JOB" ? "/v1/jobs" : kind == "WORKER" ? "/v1/nodes" : "/v1/data/sets";
  const auto reply = client.request("GET", fmt::format("{}?limit=200", list), {}, {}, kTabPatience);
  const Json page = reply ? Json::parse(reply->body, nullptr, false) : Json();
  if (!page.is_object()) return {};
  return kind == "JOB" ? jobs_of(page) : kind == "WORKER" ? workers_of(page) : data_sets_of(page);
}

}  // namespace

Completions completions_of(CLI::App& app, std::vector<std::string> words, const AskService& ask) {
  if (words.empty()) words.emplace_back();
  const std::string typed = words.back();
  words.pop_back();
  Place place;
  place.command = &app;
  for (const std::string& word : words) step_over(place, word);
  Completions found = at(place, typed, ask);
  std::erase_if(found.candidates, [&](const Candidate& candidate) { return !candidate.word.starts_with(typed); });
  return found;
}

int print_completions(CLI::App& app, Options& options, const std::vector<std::string>& words) {
  try {
    const Completions found = completions_of(app, words, [&](const std::string& kind) { return ask_service(options, kind); });
    for (const Candidate& candidate : found.candidates)
      fmt::print("{}\t{}\n", printable(candidate.word), cut_to(printable(candidate.help), kHelpWidth));
    fmt::print("{}\n", found.files == Completions::Files::kFiles         ? ":files"
                       : found.files == Completions::Files::kDirectories ? ":dirs"
                                                                         : ":none");
  } catch (const std::exception&) {  // a value that its option refuses: the command itself will say so
    fmt::print(":none\n");
  }
  return kDone;
}

void add_completion_commands(CLI::App& app, Options&) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      add_group(app, "completion", "Print a script that has the shell complete commands, flags, jobs and workers",
                "holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast\n"
                "  holdfast completion zsh > \"${fpath[1]}/_holdfast\"\n"
                "  holdfast completion fish > ~/.config/fish/completions/holdfast.fish\n"
                "  source <(holdfast completion bash)      # for this shell alone");
  command->require_subcommand(0);
  command->add_option("shell", *shell, "Which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  command->callback([shell] { fmt::print("{}", completion_script(*shell)); });
}

}  // namespace holdfast::ops
