// Checkpoints as the service lists them (`checkpoints`), and as they are where they lie (`ckpt ls|verify|show`; export has its
// own file).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <map>

#include "ops/cli/checkpoint_place.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

std::string ratio_text(double raw, double stored) {
  return stored > 0 ? fmt::format("{:.2f}x", raw / stored) : "-";
}

std::string copied_text(const Json& checkpoint) {
  if (!has(checkpoint, "copy")) return "-";
  const Json& copy = checkpoint["copy"];
  return has(copy, "copied_at") ? time_text(text_at(copy, "copied_at")) : "not yet";
}

void list_of_job(const Options& options, const std::string& name) {
  Api api(options);
  const std::string id = api.job_id(name);
  const Json checkpoints = api.list(fmt::format("/v1/jobs/{}/checkpoints", id), "checkpoints");
  if (options.json) return print_json({{"checkpoints", checkpoints}, {"next_page_token", nullptr}});
  if (checkpoints.empty()) {
    fmt::print("{} has no checkpoint yet.\n", id);
    return;
  }
  Table table({Column("STEP").right(), Column("CREATED").left_out(4), Column("SIZE").right(),
               Column("PACKED").right().left_out(3), Column("STALL").right().left_out(2),
               Column("WRITTEN IN").right().left_out(1), Column("STATE HASH").shrinks(1, 12), Column("COPIED").left_out(5)});
  for (const Json& checkpoint : checkpoints) {
    const double raw = number_at(checkpoint, "raw_bytes").value_or(0),
                 stored = number_at(checkpoint, "stored_bytes").value_or(0);
    table.add({text_at(checkpoint, "step"), time_text(text_at(checkpoint, "created_at")), bytes_text(stored),
               ratio_text(raw, stored), duration_text(number_at(checkpoint, "stall_s")),
               duration_text(number_at(checkpoint, "write_s")), text_at(checkpoint, "state_hash"), copied_text(checkpoint)});
  }
  table.print(options.wide);
}

Json manifest_json(const storage::Manifest& manifest) {
  Json tensors = Json::array(), shards = Json::array();
  for (const auto& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  }
  for (const auto& shard : manifest.shards) {
    shards.push_back({{"key", shard.key},
                      {"raw_bytes", shard.raw_bytes},
                      {"stored_bytes", shard.stored_bytes},
                      {"checksum", shard.checksum}});
  }
  return {{"format_version", manifest.format_version},
          {"job", manifest.job},
          {"step", manifest.step},
          {"generation", manifest.generation},
          {"state_hash", manifest.state_hash},
          {"created_at", manifest.created_at},
          {"raw_bytes", manifest.raw_bytes()},
          {"stored_bytes", manifest.stored_bytes()},
          {"spec", manifest.spec},
          {"data", manifest.data},
          {"tensors", tensors},
          {"shards", shards}};
}

// Which of a job's two places have a manifest, by step.
class PlacesOfJob {
 public:
  explicit PlacesOfJob(const CheckpointPlace& place) : are_two_(place.first != nullptr || place.second != nullptr) {
    note(place.first.get(), "A");
    note(place.second.get(), "B");
  }
  bool are_two() const { return are_two_; }
  std::vector<std::string> of(int64_t step) const {
    const auto found = letters_.find(step);
    return found == letters_.end() ? std::vector<std::string>{} : found->second;
  }

 private:
  void note(storage::ObjectStore* store, const char* letter) {
    const auto steps = store != nullptr ? storage::list_checkpoints(*store) : storage::Result<std::vector<int64_t>>();
    for (const int64_t step : steps.value_or(std::vector<int64_t>{})) letters_[step].emplace_back(letter);
  }
  bool are_two_;
  std::map<int64_t, std::vector<std::string>> letters_;
};

void list_stored(const Options& options, const std::string& named) {
  CheckpointPlace place = find_checkpoints(options, named);
  Json all = Json::array();
  std::vector<Column> columns{Column("STEP").right(),
                              Column("CREATED").left_out(3),
                              Column("SIZE").right(),
                              Column("PACKED").right().left_out(2),
                              Column("SHARDS").right().left_out(1),
                              Column("STATE HASH").shrinks(1, 12)};
  const PlacesOfJob places(place);
  if (places.are_two()) columns.emplace_back("IN");
  Table table(columns);
  bool is_unreadable = false;
  for (const int64_t step : steps_of(place)) {
    const auto manifest = storage::read_manifest(*place.store, step);
    if (!manifest && manifest.error().code == storage::Error::Code::kUnavailable) throw failure_of(manifest.error());
    if (!manifest) {
      is_unreadable = true;
      all.push_back({{"step", step}, {"error", manifest.error().message}});
      table.add({fmt::format("{}", step), fmt::format("unreadable: {}", manifest.error().message)});
      continue;
    }
    all.push_back({{"step", step},
                   {"created_at", manifest->created_at},
                   {"raw_bytes", manifest->raw_bytes()},
                   {"stored_bytes", manifest->stored_bytes()},
                   {"shards", manifest->shards.size()},
                   {"state_hash", manifest->state_hash}});
    const auto raw = static_cast<double>(manifest->raw_bytes()), stored = static_cast<double>(manifest->stored_bytes());
    std::vector<Cell> row{fmt::format("{}", step),
                          time_text(manifest->created_at),
                          bytes_text(stored),
                          ratio_text(raw, stored),
                          fmt::format("{}", manifest->shards.size()),
                          manifest->state_hash};
    if (places.are_two()) {
      all.back()["places"] = places.of(step);
      row.push_back(fmt::format("{}", fmt::join(places.of(step), "+")));
    }
    table.add(std::move(row));
  }
  if (options.json) {
    print_json({{"checkpoints", all}});
  } else {
    table.print(options.wide);
  }
  if (is_unreadable) throw Failure{kJobFailed, ""};
}

void verify(const Options& options, const std::string& named, const std::string& which, int threads) {
  CheckpointPlace place = find_checkpoints(options, named);
  if (!which.empty()) place.store = take_place(place, which);
  std::vector<int64_t> steps = steps_of(place);
  if (place.step) steps = {*place.step};
  Json all = Json::array();
  bool good = true;
  for (const int64_t step : steps) {
    const auto manifest = storage::verify_checkpoint(*place.store, step, threads);
    if (!manifest && manifest.error().code == storage::Error::Code::kUnavailable) throw failure_of(manifest.error());
    if (!manifest && manifest.error().code == storage::Error::Code::kNotFound && !place.step) {
      if (!options.json) fmt::print("step {}: removed meanwhile, as newer ones came\n", step);
      continue;
    }
    good = good && manifest.has_value();
    all.push_back({{"step", step}, {"ok", manifest.has_value()}});
    if (!manifest) all.back()["error"] = manifest.error().message;
    if (options.json) continue;
    if (manifest) {
      fmt::print("step {}: ok, {} in {}, state hash {}\n", step, bytes_text(static_cast<double>(manifest->stored_bytes())),
                 rendezvous::counted(manifest->shards.size(), "shard"), manifest->state_hash);
    } else {
      fmt::print("step {}: BAD: {}\n", step, manifest.error().message);
    }
  }
  if (options.json) print_json({{"checkpoints", all}});
  if (!good) throw Failure{kJobFailed, ""};
}

void show_stored(const Options& options, const std::string& named) {
  CheckpointPlace place = find_checkpoints(options, named);
  const int64_t step = place.step.value_or(steps_of(place).back());
  const storage::Manifest manifest = value_of(storage::read_manifest(*place.store, step));
  if (options.json) return print_json(manifest_json(manifest));
  const auto raw = static_cast<double>(manifest.raw_bytes()), stored = static_cast<double>(manifest.stored_bytes());
  fmt::print("{:<12}{}\n{:<12}{}\n{:<12}{} (generation {})\n{:<12}{}\n", "checkpoint", place.store->describe(), "job",
             manifest.job, "step", manifest.step, manifest.generation, "created", time_text(manifest.created_at));
  fmt::print("{:<12}{}\n{:<12}{}, packed {} to {}\n", "state hash", manifest.state_hash, "size", bytes_text(raw),
             ratio_text(raw, stored), bytes_text(stored));
  fmt::print("{:<12}{} tensors in {}\n\n", "contents", manifest.tensors.size(),
             rendezvous::counted(manifest.shards.size(), "shard"));
  Table table({Column("SHARD").shrinks(2, 12), Column("STORED").right(), Column("RAW").right().left_out(1),
               Column("CHECKSUM (XXH3-128)").shrinks(1, 8)});
  for (const auto& shard : manifest.shards) {
    table.add({shard.key, bytes_text(static_cast<double>(shard.stored_bytes)), bytes_text(static_cast<double>(shard.raw_bytes)),
               shard.checksum});
  }
  table.print(options.wide);
  fmt::print("\nJob spec: {}\n", rendezvous::json_text(manifest.spec));
}

struct CkptArguments {
  std::string place;
  std::string which;  // of a job's two places; "": both as one
  int threads = 2;
};

}  // namespace

void add_checkpoint_commands(CLI::App& app, Options& options) {
  const auto job = std::make_shared<std::string>();
  CLI::App* checkpoints = add_command(app, options, "checkpoints", "List a job's checkpoints", "holdfast checkpoints j1");
  add_job_argument(*checkpoints, *job);
  add_wide_flag(*checkpoints, options);
  checkpoints->callback([&options, job] { list_of_job(options, *job); });

  CLI::App* ckpt = add_group(app, "ckpt", "Look at checkpoints where they lie, and verify them", "holdfast ckpt verify job:j1");
  const auto arguments = std::make_shared<CkptArguments>();
  const auto add = [&](const char* name, const char* help, const char* example, const std::function<void()>& action) {
    CLI::App* command = add_command(*ckpt, options, name, help, example);
    command->add_option("checkpoints", arguments->place, kPlaceHelp)->required()->type_name("PLACE");
    add_wide_flag(*command, options);
    command->callback(action);
    return command;
  };
  add("ls", "List the checkpoints there", "holdfast ckpt ls /shared/checkpoints/j1",
      [=, &options] { list_stored(options, arguments->place); });
  CLI::App* const verifying =
      add("verify", "Read every byte and check it; exit code 1 when one is wrong", "holdfast ckpt verify job:j1@60",
          [=, &options] { verify(options, arguments->place, arguments->which, arguments->threads); });
  verifying->add_option("--threads", arguments->threads, "Threads that unpack")->check(CLI::Range(1, 256));
  verifying
      ->add_option("--place", arguments->which,
                   "Of a job with checkpoint_copy: A (checkpoint_store), B (checkpoint_copy), or its name [each object from "
                   "where it is whole]")
      ->type_name("A|B|PLACE");
  add("mend", "Make a job's checkpoints whole in both of its places, each from the other", "holdfast ckpt mend job:j1@60",
      [=, &options] { mend_checkpoints(options, arguments->place); });
  add("show", "Show what a checkpoint holds (the newest unless @STEP)", "holdfast ckpt show /shared/checkpoints/j1@60",
      [=, &options] { show_stored(options, arguments->place); });
  add_export_command(*ckpt, options);
}

}  // namespace holdfast::ops
