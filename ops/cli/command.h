// What every command of `holdfast` has in common: the options for reaching the service, help with an example, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

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
};

struct Options {
  std::string server, token;  // empty: from the environment, else the defaults
  bool json = false;
};

// A command named `name` below `parent`; `example` is what its help shows. Options of the service are added to it.
CLI::App* add_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                      const std::string& example);
// The same for one that needs no service: of the options it has --json alone.
CLI::App* add_local_command(CLI::App& parent, Options& options, const std::string& name, const std::string& help,
                            const std::string& example);
// A command that only has commands below it.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help, const std::string& example);

// One function per group of commands. `options` outlives `app`.
void add_serve_command(CLI::App& app, Options& options);
void add_backup_commands(CLI::App& app, Options& options);  // backup restore
void add_submit_command(CLI::App& app, Options& options);
void add_job_commands(CLI::App& app, Options& options);     // ls show stop pause resume scale
void add_follow_commands(CLI::App& app, Options& options);  // logs events
void add_wait_command(CLI::App& app, Options& options);
void add_node_commands(CLI::App& app, Options& options);        // nodes drain
void add_checkpoint_commands(CLI::App& app, Options& options);  // checkpoints, ckpt ls|verify|show
void add_audit_command(CLI::App& app, Options& options);
void add_chaos_command(CLI::App& app, Options& options);
void add_data_commands(CLI::App& app, Options& options);  // data prepare|info
void add_sample_command(CLI::App& app, Options& options);
void add_plan_command(CLI::App& app, Options& options);
void add_netcheck_command(CLI::App& app, Options& options);
void add_doctor_command(CLI::App& app, Options& options);

// The whole program but for main's own lines.
int run(int argc, char** argv);

}  // namespace holdfast::ops
