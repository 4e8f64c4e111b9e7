#include "ops/cli/command/command_tree.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace holdfast::ops {

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->nonpositional() && !option->get_group().empty(); });
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return option->get_positional() && !option->get_group().empty(); });
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

bool may_repeat(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

std::string value_name_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.substr(0, type.find_first_of(":{"));
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> examples_of(const CLI::App& command) {
  std::vector<std::string> examples;
  std::istringstream lines(command.get_footer());
  std::string line;
  std::getline(lines, line);  // "Example:"
  while (std::getline(lines, line)) {
    const size_t begin = line.find_first_not_of(' ');
    examples.push_back(begin == std::string::npos ? "" : line.substr(std::min<size_t>(begin, 2)));
  }
  return examples;
}

Json json_of(const CLI::App& command) {
  Json options = Json::array(), arguments = Json::array(), commands = Json::array();
  const auto described = [](const CLI::Option& option) {
    const std::vector<std::string> choices = choices_of(option);
    return Json{{"help", option.get_description()},
                {"value", takes_value(option) ? Json(value_name_of(option)) : Json()},
                {"choices", choices.empty() ? Json() : Json(choices)},
                {"required", option.get_required()},
                {"repeats", may_repeat(option)}};
  };
  for (const CLI::Option* option : options_of(command)) {
    Json one = described(*option);
    one["names"] = names_of(*option);
    one["group"] = option->get_group();
    options.push_back(std::move(one));
  }
  for (const CLI::Option* argument : arguments_of(command)) {
    Json one = described(*argument);
    one["name"] = argument->get_name(true);
    arguments.push_back(std::move(one));
  }
  for (const CLI::App* below : commands_below(command)) commands.push_back(json_of(*below));
  return {{"name", full_name(&command)}, {"help", command.get_description()}, {"arguments", arguments},
          {"options", options},          {"examples", examples_of(command)},  {"commands", commands}};
}

}  // namespace holdfast::ops
