#include "ops/cli/command/command.h"

#include <CLI/CLI.hpp>

#include "rendezvous/client/http_client.h"

namespace holdfast::ops {

void add_service_options(CLI::App& command, Options& options) {
  command
      .add_option("--server", options.server,
                  "Where the service is; of several that share a database URL,URL or @FILE [HOLDFAST_SERVER, else "
                  "http://127.0.0.1:7070]")
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

CLI::Option* add_job_argument(CLI::App& command, std::string& job) {
  return command.add_option("job", job, "Job id or name")->required()->type_name("JOB");
}

void add_wide_flag(CLI::App& command, Options& options) {
  command.add_flag("--wide", options.wide, "Cut nothing to fit the terminal")->group("Service");
}

std::string full_name(const CLI::App* command) {
  const CLI::App* parent = command->get_parent();
  return parent == nullptr ? command->get_name() : full_name(parent) + " " + command->get_name();
}

std::vector<const CLI::App*> commands_below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App* below) { return !below->get_name().empty(); });
}

}  // namespace holdfast::ops
