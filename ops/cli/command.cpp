// The command line as a whole: parsing, what is said about a mistake, and what a failure becomes outside.
#include "ops/cli/command.h"

#include <fmt/format.h>

#include <cstdio>

#include "rendezvous/protocol/http_client.h"
#include "rendezvous/protocol/messages.h"
#include "rendezvous/protocol/nearest_name.h"

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

std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
}

std::string suggestion(CLI::App* command, const std::string& typed) {
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
  }
  fmt::print(stderr, "holdfast: {}\nRun `{} --help` for what there is, with an example.\n", said, full_name(command));
  return kBadInput;
}

void add_service_options(CLI::App& command, Options& options) {
  command.add_option("--server", options.server, "Where the service is [HOLDFAST_SERVER, else http://127.0.0.1:7070]")
      ->group("Service")
      ->type_name("URL");
  command.add_option("--token", options.token, "Bearer token [HOLDFAST_TOKEN, else admin.token in the data directory]")
      ->group("Service")
      ->type_name("TOKEN");
  command
      .add_option_function<std::string>("--cacert", rendezvous::set_certificate_authority,
                                        "PEM file of who signed the service's certificate [HOLDFAST_CACERT]")
      ->group("Service")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "Print JSON")->group("Service");
}

}  // namespace

CLI::App* add_local_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                            const std::string& example) {
  CLI::App* command = add_group(parent, name, help, example);
  command->require_subcommand(0);
  command->add_flag("--json", options.json, "Print JSON");
  return command;
}

CLI::App* add_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                      const std::string& example) {
  CLI::App* command = add_group(parent, name, help, example);
  command->require_subcommand(0);
  add_service_options(*command, options);
  return command;
}

CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help, const std::string& example) {
  CLI::App* group = parent.add_subcommand(name, help);
  group->footer("Example:\n  " + example);
  group->require_subcommand(1);
  return group;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Holdfast trains GPT models on whatever machines are there, and does not let go.", "holdfast");
  app.set_version_flag("--version", std::string("holdfast ") + rendezvous::kHoldfastVersion);
  app.footer(
      "Example:\n  holdfast serve &\n  holdfast-worker &\n  holdfast submit --train_data_path data/train.bin --watch\n\n"
      "Exit codes: 0 done, 1 the job failed or a check found something, 2 bad input, 3 no service, 4 not allowed.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  add_service_options(app, options);
  for (auto* add : {add_serve_command, add_backup_commands, add_submit_command, add_job_commands, add_follow_commands,
                    add_wait_command, add_node_commands, add_checkpoint_commands, add_audit_command, add_chaos_command,
                    add_data_commands, add_sample_command, add_plan_command, add_netcheck_command, add_doctor_command}) {
    add(app, options);
  }
  try {
    app.parse(normalized_arguments(argc, argv));
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    return complain_of_usage(app, error);
  } catch (const Failure& failure) {
    if (!failure.message.empty()) fmt::print(stderr, "holdfast: {}\n", failure.message);
    return failure.exit_code;
  } catch (const nlohmann::json::exception& error) {
    fmt::print(stderr, "holdfast: the service's answer is not as expected ({}): is it of version {}?\n", error.what(),
               rendezvous::kHoldfastVersion);
    return kUnreachable;
  }
  return kDone;
}

}  // namespace holdfast::ops
