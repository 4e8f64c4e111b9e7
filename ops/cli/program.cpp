#include "ops/cli/program.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <sstream>

#include "ops/cli/help/completion.h"
#include "ops/cli/terminal/terminal.h"
#include "ops/cli/terminal/text_width.h"
#include "rendezvous/protocol/commit.h"
#include "rendezvous/protocol/foreign_names.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/nearest_name.h"

namespace holdfast::ops {
namespace {

// Flags may be written with hyphens for underscores. Values, and all after "--", are left alone.
std::vector<std::string> normalized_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool flags_end = false;
  for (int i = argc - 1; i > 0; --i) arguments.emplace_back(argv[i]);  // CLI11 takes them in reverse
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    flags_end = flags_end || *argument == "--";
    if (flags_end || !argument->starts_with("--")) continue;
    const size_t end = std::min(argument->size(), argument->find('='));
    std::replace(argument->begin() + 2, argument->begin() + static_cast<std::ptrdiff_t>(end), '-', '_');
  }
  return arguments;
}

// The innermost command that was named.
CLI::App* command_in_use(CLI::App* app) {
  for (const auto named = app->get_subcommands(); !named.empty();) return command_in_use(named.front());
  return app;
}

// A flag of another trainer where it is not taken: what stands for it, if this command has that.
std::string suggestion_for_foreign(CLI::App* command, const std::string& typed) {
  const auto* name = rendezvous::find_foreign_name(typed.substr(2, typed.find('=') - 2));
  if (name == nullptr) return "";
  const std::string field = name->field;
  if (!field.empty() && command->get_option_no_throw("--" + field) == nullptr) {
    return fmt::format("; {}, a flag of `holdfast submit`", rendezvous::foreign_name_in_words(*name));
  }
  return "; " + rendezvous::foreign_name_in_words(*name);
}

std::string suggestion(CLI::App* command, const std::string& typed) {
  if (typed.starts_with("--")) {
    if (const std::string foreign = suggestion_for_foreign(command, typed); !foreign.empty()) return foreign;
  }
  std::vector<std::string> known;
  const bool flag = typed.starts_with("--");
  if (flag) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* below : command->get_subcommands([](CLI::App*) { return true; })) known.push_back(below->get_name());
  }
  const std::string nearest = rendezvous::nearest_name(typed.substr(0, typed.find('=')), known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

// CLI11 says "--state: runing not in {queued,running}": the choice that may have been meant.
std::string suggestion_among_choices(const std::string& said) {
  const size_t begin = said.find(": "), not_in = said.find(" not in {"), end = said.rfind('}');
  if (begin == std::string::npos || not_in == std::string::npos || end < not_in) return "";
  std::vector<std::string> choices;
  std::istringstream words(said.substr(not_in + 9, end - not_in - 9));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  const std::string nearest = rendezvous::nearest_name(said.substr(begin + 2, not_in - begin - 2), choices);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

// A message of the service, line by line, without control characters: it may hold anybody's text, which must not steer the
// terminal.
std::string fit_for_stderr(const std::string& message) {
  if (terminal_width(STDERR_FILENO) == 0) return message;
  std::string clean;
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) clean += (clean.empty() ? "" : "\n") + printable(line);
  return clean;
}

int complain_of_usage(CLI::App& app, const CLI::ParseError& error) {
  CLI::App* command = command_in_use(&app);
  std::string said = error.what();
  const std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {  // also behind "a subcommand is required"
    const std::string& typed = extras.front();
    const bool takes_commands = !command->get_subcommands([](CLI::App*) { return true; }).empty();
    const char* what = typed.starts_with("-") ? "no such option" : takes_commands ? "no such command" : "one argument too many";
    said = fmt::format("{}: {}{}", typed, what, suggestion(command, typed));
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && said == "A subcommand is required") {
    said = "what shall it do? Name a command";
  } else {
    said += suggestion_among_choices(said);
  }
  fmt::print(stderr, "holdfast: {}\nRun `{} --help` for what there is, with an example.\n", said, full_name(command));
  return kBadInput;
}

// Under which heading a command stands in the program's help; others stand under "Subcommands".
constexpr std::pair<const char*, const char*> kHeadings[] = {{"submit", "Jobs"},
                                                             {"ls", "Jobs"},
                                                             {"show", "Jobs"},
                                                             {"stop", "Jobs"},
                                                             {"pause", "Jobs"},
                                                             {"resume", "Jobs"},
                                                             {"scale", "Jobs"},
                                                             {"logs", "Jobs"},
                                                             {"events", "Jobs"},
                                                             {"wait", "Jobs"},
                                                             {"profile", "Jobs"},
                                                             {"jobs", "Jobs"},
                                                             {"nodes", "Workers"},
                                                             {"drain", "Workers"},
                                                             {"checkpoints", "Checkpoints and data"},
                                                             {"data", "Checkpoints and data"},
                                                             {"ckpt", "Checkpoints and data"},
                                                             {"sample", "Checkpoints and data"},
                                                             {"eval", "Checkpoints and data"},
                                                             {"generate", "Checkpoints and data"},
                                                             {"audit", "Checks and plans"},
                                                             {"chaos", "Checks and plans"},
                                                             {"plan", "Checks and plans"},
                                                             {"netcheck", "Checks and plans"},
                                                             {"doctor", "Checks and plans"},
                                                             {"serve", "The service"},
                                                             {"serve-model", "Checkpoints and data"},
                                                             {"serve-stage", "Checkpoints and data"},
                                                             {"backup", "The service"},
                                                             {"store", "The service"},
                                                             {"restore", "The service"},
                                                             {"tokens", "The service"},
                                                             {"webhooks", "The service"},
                                                             {"whoami", "The service"},
                                                             {"help", "This program"},
                                                             {"completion", "This program"}};

void put_under_headings(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (const auto& [name, heading] : kHeadings) {
      if (command->get_name() == name) command->group(heading);
    }
  }
}

// Words that cannot be written, as on a full disk, are lost: a command that said something has failed then.
int finish_output() {
  if ((std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || errno == EPIPE) return kDone;  // a reader may have had enough
  fmt::print(stderr, "holdfast: standard output cannot be written: {}\n", rendezvous::describe_errno(errno));
  return kJobFailed;
}

}  // namespace

std::unique_ptr<CLI::App> make_app(Options& options) {
  auto app =
      std::make_unique<CLI::App>("Holdfast trains GPT models on whatever machines are there, and does not let go.", "holdfast");
  app->set_version_flag("--version", "holdfast " + rendezvous::version_and_commit());
  app->footer(
      "Example:\n  holdfast serve &\n  holdfast-worker &\n  holdfast submit --train_data_path data/train.bin --watch\n\n"
      "Exit codes: 0 done, 1 the job failed or a check found something, 2 bad input, 3 no service, 4 not allowed.\n"
      "More: holdfast help job_spec, holdfast help environment, holdfast help exit_codes.");
  app->require_subcommand(1);
  app->get_formatter()->column_width(34);
  add_service_options(*app, options);
  for (auto* add : {add_serve_command,       add_backup_commands,  add_store_commands,      add_submit_command,
                    add_list_command,        add_show_command,     add_job_actions,         add_follow_commands,
                    add_wait_command,        add_profile_command,  add_jobs_group,          add_node_commands,
                    add_checkpoint_commands, add_audit_command,    add_chaos_command,       add_data_commands,
                    add_sample_command,      add_evaluate_command, add_generate_command,    add_serve_model_command,
                    add_serve_stage_command, add_plan_command,     add_netcheck_command,    add_doctor_command,
                    add_token_commands,      add_webhook_commands, add_completion_commands, add_help_command}) {
    add(*app, options);
  }
  put_under_headings(*app);
  return app;
}

int run(int argc, char** argv, const worker::GpuOps* gpus) {
  Options options;
  options.gpus = gpus;
  const std::unique_ptr<CLI::App> app = make_app(options);
  if (argc > 1 && argv[1] == std::string(kCompleteWord)) return print_completions(*app, options, {argv + 2, argv + argc});
  try {
    app->parse(normalized_arguments(argc, argv));
  } catch (const CLI::Success& asked_for_help) {
    return app->exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    return complain_of_usage(*app, error);
  } catch (const Failure& failure) {
    if (!failure.message.empty()) fmt::print(stderr, "holdfast: {}\n", fit_for_stderr(failure.message));
    return failure.exit_code;
  } catch (const nlohmann::json::exception& error) {
    fmt::print(stderr, "holdfast: the service's answer is not as expected ({}): is it of version {}?\n", error.what(),
               rendezvous::kHoldfastVersion);
    return kUnreachable;
  }
  return finish_output();
}

}  // namespace holdfast::ops
