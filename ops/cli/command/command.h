// The parts that all commands of `holdfast` share: options for reaching the service, help with an example, exit codes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI
namespace holdfast::worker {
struct GpuOps;
}
namespace holdfast::ops {

// The exit codes are a contract with scripts.
enum ExitCode {
  kDone = 0,
  kJobFailed = 1,    // the job failed, or a check found something wrong
  kBadInput = 2,     // usage, or what the service refused as such
  kUnreachable = 3,  // no service
  kNotAllowed = 4,
};

// Ends a command with a message for people on stderr. Caught in run().
struct Failure {
  int exit_code;
  std::string message;
  bool busy = false;  // the service has too much to do just now (429): the same may be asked again
};

struct Options {
  std::string server, token;  // empty: from the environment, else the defaults
  bool json = false;
  bool wide = false;                     // tables are not made to fit the terminal
  const worker::GpuOps* gpus = nullptr;  // of the build (worker/devices/devices.h); null: none
};

// --server, --token, --cacert and --json.
void add_service_options(CLI::App& command, Options& options);

// A command named `name` below `parent`; `example` is what its help shows. Options of the service are added to it.
CLI::App* add_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                      const std::string& example);
// The same for a command that needs no service: of these options it has --json alone.
CLI::App* add_local_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                            const std::string& example);
// A group: a command that only has commands below it.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help, const std::string& example);

// The positional "job": an id or a name.
CLI::Option* add_job_argument(CLI::App& command, std::string& job);
// --wide, for a command that prints a table.
void add_wide_flag(CLI::App& command, Options& options);

// The type name of an option or argument says what completion offers for its value: JOB, WORKER, DATASET, FILE, DIR, PLACE (a
// job's checkpoints or a folder), or the words between the braces of "{a,b,c}", as CLI::IsMember writes them.

// "holdfast ckpt verify"
std::string full_name(const CLI::App* command);
// The commands below one, in the order in which help lists them.
std::vector<const CLI::App*> commands_below(const CLI::App& command);

// One function per group of commands. `options` outlives `app`.
void add_serve_command(CLI::App& app, Options& options);
void add_backup_commands(CLI::App& app, Options& options);  // backup restore
void add_store_commands(CLI::App& app, Options& options);   // store copy
void add_submit_command(CLI::App& app, Options& options);
void add_list_command(CLI::App& app, Options& options);  // ls
void add_show_command(CLI::App& app, Options& options);
void add_job_actions(CLI::App& app, Options& options);  // stop pause resume scale
void add_profile_command(CLI::App& app, Options& options);
void add_jobs_group(CLI::App& app, Options& options);       // jobs ls|show|diff
void add_follow_commands(CLI::App& app, Options& options);  // logs events
void add_wait_command(CLI::App& app, Options& options);
void add_node_commands(CLI::App& app, Options& options);        // nodes drain
void add_checkpoint_commands(CLI::App& app, Options& options);  // checkpoints, ckpt ls|verify|show|export
void add_export_command(CLI::App& ckpt, Options& options);
void add_audit_command(CLI::App& app, Options& options);
void add_chaos_command(CLI::App& app, Options& options);
void add_data_commands(CLI::App& app, Options& options);  // data prepare|info|push|ls|rm
void add_sample_command(CLI::App& app, Options& options);
void add_evaluate_command(CLI::App& app, Options& options);
void add_generate_command(CLI::App& app, Options& options);
void add_serve_model_command(CLI::App& app, Options& options);
void add_serve_stage_command(CLI::App& app, Options& options);
void add_plan_command(CLI::App& app, Options& options);
void add_netcheck_command(CLI::App& app, Options& options);
void add_doctor_command(CLI::App& app, Options& options);
void add_token_commands(CLI::App& app, Options& options);    // whoami, tokens create|ls|revoke
void add_webhook_commands(CLI::App& app, Options& options);  // webhooks create|ls|rm
void add_completion_commands(CLI::App& app, Options& options);
void add_help_command(CLI::App& app, Options& options);

}  // namespace holdfast::ops
