// `holdfast serve`: the service, in this process.
#include "rendezvous/process/serve.h"

#include "ops/cli/command/command.h"
#include "rendezvous/client/http_client.h"

namespace holdfast::ops {
namespace {

constexpr int64_t kMostLines = int64_t{1} << 40, kMostMib = int64_t{1} << 30, kMostDays = 36'500;

// How much is kept of what only grows.
void add_retention_flags(CLI::App& command, rendezvous::ServeOptions& serve) {
  rendezvous::Retention& retention = serve.retention;
  command.add_option("--log_lines_per_job", retention.log_lines_per_job, "Log lines that are kept of each job, the newest")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, kMostLines));
  const auto add_mib = [&command](const char* name, int64_t& bytes, const char* help) {
    command
        .add_option_function<int64_t>(
            name, [&bytes](int64_t mib) { bytes = mib << 20; }, help)
        ->default_str(std::to_string(bytes >> 20))
        ->check(CLI::Range(int64_t{1}, kMostMib))
        ->type_name("MIB");
  };
  add_mib("--log_mib_per_job", retention.log_bytes_per_job, "MiB of log lines that are kept of each job, the newest");
  add_mib("--logs_mib", retention.log_bytes, "MiB of log lines of all jobs; those of jobs that ended first go first");
  command
      .add_option("--keep_logs_days", retention.days,
                  "Days after a job's end until its log goes, and its events but for the newest 200")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, kMostDays));
}

}  // namespace

void add_serve_command(CLI::App& app, Options&) {
  const auto arguments = std::make_shared<rendezvous::ServeOptions>();
  CLI::App* command =
      add_group(app, "serve", "Run the service that workers and this program talk to",
                "holdfast serve --listen 0.0.0.0:7070 --tls_cert cert.pem --tls_key key.pem --data_dir /var/lib/holdfast");
  command->require_subcommand(0);
  arguments->data_dir = rendezvous::default_data_directory();
  command->add_option("--listen", arguments->listen, "Address to listen on")->capture_default_str()->type_name("HOST:PORT");
  command->add_option("--data_dir", arguments->data_dir, "Folder for the database, tokens and checkpoints")
      ->capture_default_str()
      ->type_name("DIR");
  command
      ->add_option("--tls_cert", arguments->tls_cert, "Certificate (a chain in PEM): serve https; read again when it changes")
      ->type_name("FILE");
  command->add_option("--tls_key", arguments->tls_key, "The certificate's key (PEM)")->type_name("FILE");
  command
      ->add_flag("--allow_insecure", arguments->allow_insecure,
                 "Listen beyond this machine without TLS, on a network that is trusted")
      ->envname("HOLDFAST_ALLOW_INSECURE");
  command
      ->add_option("--checkpoint_root", arguments->checkpoint_roots,
                   "Folder that resume_from may lead to, and nowhere else; may be given several times [anywhere]")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  command
      ->add_option("--requests_per_s", arguments->requests_per_s,
                   "So often may each token ask, on average (workers' are not counted); 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  command->add_option("--log_level", arguments->log_level, "trace, debug, info, warn or error")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  add_retention_flags(*command, *arguments);
  command->callback([arguments] {
    const int exit_code = rendezvous::serve(*arguments);
    if (exit_code != kDone) throw Failure{exit_code, ""};
  });
}

}  // namespace holdfast::ops
