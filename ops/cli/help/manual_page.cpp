// Plain man macros only, so that every man program reads it; characters beyond ASCII are written as \[uXXXX].
#include "ops/cli/help/manual_page.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>

#include "ops/cli/command/command_tree.h"
#include "ops/cli/help/topics.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/utf8.h"

namespace holdfast::ops {
namespace {

// Text that roff prints as it is: nothing in it is an escape, a request or a hyphen of its own.
std::string plain(const std::string& text) {
  std::string roff;
  for (size_t at = 0; at < text.size();) {
    const rendezvous::Character character = rendezvous::character_at(text, at);
    const char32_t code = character.code;
    if (code == '\\') {
      roff += "\\e";
    } else if (code == '-') {
      roff += "\\-";
    } else if ((code == '.' || code == '\'') && (at == 0 || text[at - 1] == '\n')) {
      roff += "\\&" + text.substr(at, 1);
    } else if (code < 0x80) {
      roff += text[at];
    } else if (character.valid) {
      roff += fmt::format("\\[u{:04X}]", static_cast<uint32_t>(code));
    }
    at += character.bytes;
  }
  return roff;
}

// An argument of a macro, in quotation marks so that roff takes it for one argument.
std::string in_quotes(const std::string& text) {
  std::string roff;
  for (const char c : plain(text)) roff += c == '"' ? "\\(dq" : std::string(1, c);
  return "\"" + roff + "\"";
}

std::string in_capitals(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(c == '_' ? ' ' : std::toupper(c)); });
  return text;
}

std::string entry(const std::string& bold, const std::string& italic, const std::string& text) {
  const std::string term = italic.empty() ? fmt::format(".B {}\n", in_quotes(bold))
                                          : fmt::format(".BI {} {}\n", in_quotes(bold + " "), in_quotes(italic));
  return ".TP\n" + term + plain(text) + "\n";
}

std::string options_text(const CLI::App& command) {
  std::string roff;
  for (const CLI::Option* argument : arguments_of(command))
    roff += entry(argument->get_name(true), "", argument->get_description());
  for (const CLI::Option* option : options_of(command)) {
    if (option->get_single_name() == "help") continue;
    std::string value;
    if (takes_value(*option)) {
      const std::vector<std::string> choices = choices_of(*option);
      value = choices.empty() ? value_name_of(*option) : fmt::format("{}", fmt::join(choices, "|"));
    }
    roff += entry(fmt::format("{}", fmt::join(names_of(*option), ", ")), value, option->get_description());
  }
  return roff;
}

std::string usage(const CLI::App& command) {
  std::string roff = ".PP\n.B " + in_quotes(full_name(&command)) + "\n";
  std::string rest = "[OPTIONS]";
  for (const CLI::Option* argument : arguments_of(command)) {
    const std::string name = argument->get_name(true) + (may_repeat(*argument) ? "..." : "");
    rest += argument->get_required() ? " " + name : " [" + name + "]";
  }
  return roff + ".I " + in_quotes(rest) + "\n";
}

std::string command_text(const CLI::App& command) {
  std::string roff = fmt::format(".SS {}\n{}.PP\n{}\n", in_quotes(full_name(&command)), usage(command),
                                 plain(command.get_description() + "."));
  roff += options_text(command);
  const std::vector<std::string> examples = examples_of(command);
  if (!examples.empty()) {
    roff += ".PP\nExample:\n.PP\n.RS 4\n.nf\n";
    for (const std::string& line : examples) roff += (line.empty() ? ".PP" : plain(line)) + "\n";
    roff += ".fi\n.RE\n";
  }
  return roff;
}

// Groups are left out: the commands below them are described.
std::string commands_text(const CLI::App& command) {
  std::string roff;
  for (const CLI::App* below : commands_below(command))
    roff += commands_below(*below).empty() ? command_text(*below) : commands_text(*below);
  return roff;
}

std::string topic_text(const HelpTopic& topic) {
  std::string roff = fmt::format(".SH {}\n", in_quotes(in_capitals(topic.title)));
  for (const HelpSection& section : topic.sections) {
    if (!section.heading.empty()) roff += fmt::format(".SS {}\n", in_quotes(section.heading));
    if (!section.text.empty()) roff += plain(section.text) + "\n";
    for (const HelpEntry& one : section.entries) {
      const std::string facts = one.facts.empty() ? "" : plain(one.facts) + "\n.br\n";
      roff += fmt::format(".TP\n.B {}\n{}{}\n", in_quotes(one.term), facts, plain(one.text));
    }
  }
  return roff;
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  std::string roff =
      fmt::format(".TH HOLDFAST 1 {} {} {}\n", in_quotes(""),
                  in_quotes(fmt::format("Holdfast {}", rendezvous::kHoldfastVersion)), in_quotes("User Commands"));
  roff += ".SH NAME\nholdfast \\- train GPT models on whatever machines are there\n";
  roff += ".SH SYNOPSIS\n.B holdfast\n.I COMMAND\n[\\fIOPTIONS\\fR]\n";
  roff +=
      ".SH DESCRIPTION\n" + plain(app.get_description()) +
      " One program is the service and everything that people ask of it. Flags may be written with hyphens for underscores.\n";
  roff += ".SH OPTIONS\n" + options_text(app);
  roff += ".SH COMMANDS\n" + commands_text(app);
  for (const HelpTopic& topic : help_topics()) roff += topic_text(topic);
  return roff;
}

}  // namespace holdfast::ops
