// `holdfast help`: the commands, a command, a topic, a field of the job spec; and the manual page.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "ops/cli/command/command.h"
#include "ops/cli/command/command_tree.h"
#include "ops/cli/help/manual_page.h"
#include "ops/cli/help/topics.h"
#include "ops/cli/terminal/terminal.h"
#include "rendezvous/text/nearest_name.h"

namespace holdfast::ops {
namespace {

constexpr size_t kWidthElsewhere = 80, kWidthMax = 100;  // longer lines are hard to read

struct HelpArguments {
  std::vector<std::string> words;
  bool man = false;
};

size_t text_width() {
  const size_t width = terminal_width(STDOUT_FILENO);
  return width == 0 ? kWidthElsewhere : std::min(width, kWidthMax);
}

// The command that these words name, or null.
const CLI::App* find_command(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto below = commands_below(*command);
    const auto found = std::ranges::find(below, word, [](const CLI::App* one) { return one->get_name(); });
    if (found == below.end()) return nullptr;
    command = *found;
  }
  return command;
}

std::string help_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return command.help(parent == nullptr ? "" : full_name(parent));
}

[[noreturn]] void no_such_topic(const CLI::App& app, const std::string& typed) {
  std::vector<std::string> known;
  for (const CLI::App* command : commands_below(app)) known.push_back(command->get_name());
  for (const HelpTopic& topic : help_topics()) known.push_back(topic.name);
  for (const auto& field : rendezvous::job_spec_fields()) known.push_back(field.name);
  const std::string nearest = rendezvous::nearest_name(typed, known);
  throw Failure{kBadInput, fmt::format("there is no help about {}: it is no command, topic or field of the job spec; {}", typed,
                                       nearest.empty() ? "`holdfast help` lists what there is"
                                                       : fmt::format("did you mean {}?", nearest))};
}

void show_everything(const Options& options, const CLI::App& app) {
  if (options.json) {
    Json topics = Json::array();
    for (const HelpTopic& topic : help_topics()) topics.push_back(json_of(topic));
    return print_json({{"command", json_of(app)}, {"topics", topics}});
  }
  fmt::print("{}\n{}\n", app.get_formatter()->make_help(&app, "holdfast", CLI::AppFormatMode::Normal),
             painted("Topics:", Style::kBold, colour_wanted(STDOUT_FILENO)));
  for (const HelpTopic& topic : help_topics()) fmt::print("  holdfast help {:<20}{}\n", topic.name, topic.title);
  fmt::print("  holdfast help {:<20}{}\n", "FIELD", "One field of the job spec, such as batch_size");
  fmt::print("  holdfast help {:<20}{}\n", "--man", "The manual page: holdfast help --man | man -l -");
}

void show(const Options& options, const CLI::App& app, const HelpArguments& arguments) {
  if (arguments.man) {
    if (options.json) return print_json({{"format", "roff"}, {"name", "holdfast.1"}, {"text", manual_page(app)}});
    fmt::print("{}", manual_page(app));
    return;
  }
  if (arguments.words.empty()) return show_everything(options, app);
  std::string topic_name = arguments.words.size() == 1 ? arguments.words.front() : "";
  std::ranges::replace(topic_name, '-', '_');
  const CLI::App* command = find_command(app, arguments.words);
  const auto topic = find_help_topic(topic_name);  // `nodes` is a command and a field: both are shown
  if (command == nullptr && !topic) no_such_topic(app, fmt::format("{}", fmt::join(arguments.words, " ")));
  if (options.json) {
    Json both = Json::object();
    if (command != nullptr) both["command"] = json_of(*command);
    if (topic) both["topic"] = json_of(*topic);
    return print_json(both);
  }
  if (command != nullptr) fmt::print("{}", help_of(*command));
  if (command != nullptr && topic) fmt::print("\n");
  if (topic) fmt::print("{}", text_of(*topic, text_width(), colour_wanted(STDOUT_FILENO)));
}

}  // namespace

void add_help_command(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<HelpArguments>();
  CLI::App* command = add_local_command(app, options, "help", "Explain a command, a topic or a field of the job spec",
                                        "holdfast help job_spec\n  holdfast help batch_size\n  holdfast help ckpt verify");
  command->add_option("topic", arguments->words, "A command, topic or field; without one, what there is")->type_name("TOPIC");
  command->add_flag("--man", arguments->man, "Print the manual page holdfast(1) in roff");
  command->callback([&options, &app, arguments] { show(options, app, *arguments); });
}

}  // namespace holdfast::ops
