// `holdfast serve`: the service, in this process.
#include "rendezvous/process/serve.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/command.h"
#include "rendezvous/client/http_client.h"
#include "storage/places/place.h"

namespace holdfast::ops {
namespace {

constexpr int64_t kMostLines = int64_t{1} << 40, kMostMib = int64_t{1} << 30, kMostDays = 36'500, kMostGib = 1 << 20;

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

std::string is_postgresql_url(const std::string& text) {
  if (text.starts_with("postgresql://") || text.starts_with("postgres://")) return "";
  return "\"" + text + "\" is no address of a PostgreSQL database: expected postgresql://USER@HOST/DATABASE";
}

// Requests that jobs of kind `serve` answer.
void add_text_flags(CLI::App& command, rendezvous::DeskSettings& texts) {
  command
      .add_option_function<int64_t>(
          "--text_timeout_s", [&texts](int64_t seconds) { texts.patience = std::chrono::seconds(seconds); },
          "The time in which the texts of a request to a job that serves must be written, waiting for a replica included")
      ->default_str(std::to_string(texts.patience.count() / 1000))
      ->check(CLI::Range(int64_t{1}, int64_t{86400}))
      ->type_name("SECONDS");
  command.add_flag("--log_prompts", texts.logs_requests, "Log each request for texts as it came, with its prompt");
}

// The program that starts and ends machines.
void add_scaling_flags(CLI::App& command, rendezvous::ScaleHook& hook) {
  auto* program =
      command
          .add_option("--scale_hook", hook.program,
                      "Program that is called when jobs wait for workers or workers for jobs, with the demand as JSON on its "
                      "standard input [none]")
          ->type_name("FILE")
          ->check([](const std::string& path) {
            if (path.starts_with('/') && access(path.c_str(), X_OK) == 0) return std::string();
            return path + ": expected the absolute path of a program that this user may run";
          });
  const auto add_seconds = [&](const char* name, std::chrono::milliseconds& time, const char* help) {
    command
        .add_option_function<int64_t>(
            name, [&time](int64_t seconds) { time = std::chrono::seconds(seconds); }, help)
        ->default_str(std::to_string(time.count() / 1000))
        ->check(CLI::Range(int64_t{1}, int64_t{86400}))
        ->type_name("SECONDS")
        ->needs(program);
  };
  add_seconds("--scale_hook_every_s", hook.every, "At most so often it is called");
  add_seconds("--scale_hook_timeout_s", hook.patience, "When it has run for so long it is killed");
  add_seconds("--scale_hook_idle_s", hook.idle_for, "So long is a worker without a job before it is told of as idle");
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
  command->add_option("--data_dir", arguments->data_dir, "Folder for the database, tokens, checkpoints and data sets")
      ->capture_default_str()
      ->type_name("DIR");
  command
      ->add_option(
          "--store", arguments->store,
          "Database that several services share, of which one leads: postgresql://USER@HOST/DATABASE [a file in --data_dir]")
      ->check(is_postgresql_url)
      ->type_name("URL");
  command
      ->add_option("--shared_dir", arguments->shared_dir,
                   "Folder that all services of --store see: checkpoints and data sets are kept there [--data_dir]")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  command
      ->add_option(
          "--pull_mib_per_s", arguments->pull_mib_per_s,
          "MiB/s at which a service of --store without --shared_dir, while it stands by, pulls the checkpoints that the "
          "one which leads keeps; 0: as fast as it goes")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6))
      ->type_name("MIB");
  command->add_option("--advertise", arguments->advertise, "URL at which others reach this service [made of --listen]")
      ->type_name("URL");
  command
      ->add_option("--tls_cert", arguments->tls_cert, "Certificate (a chain in PEM): serve https; read again when it changes")
      ->type_name("FILE");
  command->add_option("--tls_key", arguments->tls_key, "The certificate's key (PEM)")->type_name("FILE");
  command
      ->add_flag("--allow_insecure", arguments->allow_insecure,
                 "Listen beyond this machine without TLS, on a network that is trusted")
      ->envname("HOLDFAST_ALLOW_INSECURE");
  command->add_flag(
      "--ignore_sigterm", arguments->ignore_sigterm,
      "End by SIGINT alone: for schedulers that send SIGTERM to all processes at once, workers and service alike");
  command
      ->add_option(
          "--checkpoint_root", arguments->checkpoint_roots,
          "Folder, or place in S3, that resume_from may lead to, and nowhere else; may be given several times [anywhere]")
      ->type_size(1)
      ->allow_extra_args(false)
      ->check([](const std::string& root) {
        if (!storage::is_s3(root)) return CLI::ExistingDirectory(root);
        const auto place = storage::parse_s3_place(root);
        return place ? std::string() : place.error();
      })
      ->type_name("DIR");
  command
      ->add_option("--requests_per_s", arguments->requests_per_s,
                   "So often may each token ask, on average (workers' are not counted); 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  command
      ->add_option_function<int64_t>(
          "--data_limit_gib", [arguments](int64_t gib) { arguments->data_limit_bytes = gib << 30; },
          "GiB that data sets (`holdfast data push`) may have; 0: no limit but the disk, of which 256 MB are left free")
      ->default_str("0")
      ->check(CLI::Range(int64_t{0}, kMostGib))
      ->type_name("GIB");
  command->add_option("--log_level", arguments->log_level, "trace, debug, info, warn or error")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  add_retention_flags(*command, *arguments);
  add_scaling_flags(*command, arguments->scale_hook);
  add_text_flags(*command, arguments->texts);
  command->callback([arguments] {
    const int exit_code = rendezvous::serve(*arguments);
    if (exit_code != kDone) throw Failure{exit_code, ""};
  });
}

}  // namespace holdfast::ops
