// `holdfast backup` and `holdfast restore`: a service's database, and with it the checkpoints that it keeps.
#include "rendezvous/process/backup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "rendezvous/client/http_client.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

using rendezvous::BackupOptions;
using rendezvous::CopiedCheckpoint;
using rendezvous::DatabaseContents;

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}", count_text(count), rendezvous::plural(count, what));
}

std::string contents_text(const DatabaseContents& contents) {
  return fmt::format("{} ({} not ended), {}, {}, {}, {}; schema version {}; {}, checked", counted(contents.jobs, "job"),
                     contents.open_jobs.size(), counted(contents.workers, "worker"),
                     counted(contents.checkpoints, "checkpoint row"), counted(contents.steps, "step"),
                     counted(contents.events, "event"), contents.schema_version,
                     bytes_text(static_cast<double>(contents.bytes)));
}

void print_checkpoints(const std::vector<CopiedCheckpoint>& checkpoints) {
  for (const CopiedCheckpoint& one : checkpoints) {
    fmt::print("checkpoint of {} at step {}: {}, read back and verified\n", one.job, one.step,
               bytes_text(static_cast<double>(one.bytes)));
  }
}

// The rest is done, but the exit code tells a script that the copy is not whole.
void complain_of(const std::vector<std::string>& damaged) {
  if (damaged.empty()) return;
  std::string text;
  for (const std::string& one : damaged) text += (text.empty() ? "" : "\nholdfast: ") + one;
  throw Failure{kJobFailed, text};
}

template <typename Report>
Json report_json(const Report& report) {
  const DatabaseContents& contents = report.contents;
  Json open = Json::array(), copied = Json::array();
  for (const auto& job : contents.open_jobs)
    open.push_back({{"id", job.id}, {"name", job.name}, {"state", job.state}, {"step", job.committed_step}});
  for (const CopiedCheckpoint& one : report.checkpoints)
    copied.push_back({{"job", one.job}, {"step", one.step}, {"stored_bytes", one.bytes}});
  return {{"schema_version", contents.schema_version},
          {"database_bytes", contents.bytes},
          {"jobs", contents.jobs},
          {"open_jobs", open},
          {"workers", contents.workers},
          {"checkpoints", contents.checkpoints},
          {"steps", contents.steps},
          {"events", contents.events},
          {"copied_checkpoints", copied},
          {"damaged_checkpoints", report.damaged},
          {"notes", report.notes}};
}

void back_up(const Options& options, const BackupOptions& arguments) {
  umask(0077);  // the database holds secrets
  const auto report = rendezvous::back_up(arguments);
  if (!report) throw Failure{kBadInput, report.error()};
  if (options.json) {
    Json json = report_json(*report);
    json["output"] = arguments.output;
    print_json(json);
    return complain_of(report->damaged);
  }
  fmt::print("{}: {}\n", arguments.output, contents_text(report->contents));
  print_checkpoints(report->checkpoints);
  for (const std::string& note : report->notes) fmt::print("{}\n", note);
  complain_of(report->damaged);
}

void restore(const Options& options, const std::string& from, const std::string& data_dir) {
  umask(0077);
  const auto report = rendezvous::restore(from, data_dir);
  if (!report) throw Failure{kBadInput, report.error()};
  if (options.json) {
    Json json = report_json(*report);
    json["data_dir"] = data_dir;
    json["replaced"] = report->replaced.empty() ? Json(nullptr) : Json(report->replaced);
    print_json(json);
    return complain_of(report->damaged);
  }
  fmt::print("{}/holdfast.sqlite is {} now: {}\n", data_dir, from, contents_text(report->contents));
  print_checkpoints(report->checkpoints);
  if (!report->replaced.empty()) fmt::print("What was there is kept as {}: remove it when all is well.\n", report->replaced);
  for (const std::string& note : report->notes) fmt::print("{}\n", note);
  fmt::print("Next: holdfast serve --data_dir {}\n", data_dir);
  complain_of(report->damaged);
}

}  // namespace

void add_backup_commands(CLI::App& app, Options& options) {
  const auto arguments = std::make_shared<BackupOptions>();
  arguments->data_dir = rendezvous::default_data_directory();
  CLI::App* backup = add_local_command(app, options, "backup", "Copy a service's database, while it runs or not",
                                       "holdfast backup --data_dir /var/lib/holdfast --output /backups/monday.sqlite");
  backup->add_option("--data_dir", arguments->data_dir, "The service's folder")->capture_default_str()->type_name("DIR");
  backup->add_option("--output,-o", arguments->output, "What to write: a file, or a folder with --with_checkpoints")
      ->required()
      ->type_name("FILE");
  backup->add_flag("--with_checkpoints", arguments->with_checkpoints,
                   "Take along the checkpoints that the service keeps of jobs that have not ended, and what these go on from");
  backup->add_flag("--force", arguments->force, "Replace the file if it is there");
  backup->callback([&options, arguments] { back_up(options, *arguments); });

  const auto from = std::make_shared<std::string>();
  const auto data_dir = std::make_shared<std::string>(rendezvous::default_data_directory());
  CLI::App* command = add_local_command(app, options, "restore", "Put a copy of a database back; the service must not run",
                                        "holdfast restore /backups/monday.sqlite --data_dir /var/lib/holdfast");
  command->add_option("from", *from, "What `holdfast backup` wrote")->required()->type_name("FILE");
  command->add_option("--data_dir", *data_dir, "The service's folder; made when it is not there")
      ->capture_default_str()
      ->type_name("DIR");
  command->callback([&options, from, data_dir] { restore(options, *from, *data_dir); });
}

}  // namespace holdfast::ops
