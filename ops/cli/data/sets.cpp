#include "ops/cli/data/sets.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>

#include "ops/cli/command/api.h"
#include "ops/cli/data/push.h"
#include "ops/cli/terminal/format.h"
#include "ops/cli/terminal/table.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

struct PushArguments {
  std::string path, name;
};

std::string bytes_in_words(int64_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

int64_t tokens_of(const rendezvous::DataManifest& manifest) {
  int64_t tokens = 0;
  for (const auto& file : manifest.files) tokens += file.tokens;
  return tokens;
}

std::string checked_name(const PushArguments& arguments, const FilesToPush& files) {
  const std::string name = arguments.name.empty() ? files.name : arguments.name;
  if (rendezvous::is_data_name(name)) return name;
  throw Failure{kBadInput,
                fmt::format("\"{}\" is no name of a data set (1 to {} letters, digits and ._- , not beginning with a dot): "
                            "give one with --name",
                            name, rendezvous::kDataNameBytesMax)};
}

void print_pushed(const Options& options, const std::string& name, const FilesToPush& files, const PushReport& report) {
  Json skipped = Json::array(), pushed = Json::array();
  for (const Skipped& one : files.skipped) skipped.push_back({{"name", one.name}, {"why", one.why}});
  for (const auto& file : report.manifest.files)
    pushed.push_back({{"name", file.name},
                      {"bytes", file.bytes},
                      {"tokens", file.tokens_digest.empty() ? Json(nullptr) : Json(file.tokens)}});
  print_json({{"name", name},
              {"digest", report.digest},
              {"bytes", report.manifest.bytes()},
              {"sent_bytes", report.sent_bytes},
              {"there_bytes", std::max<int64_t>(0, report.manifest.bytes() - report.sent_bytes)},
              {"files", pushed},
              {"skipped", skipped},
              {"notes", report.notes},
              {"server", server_of(options)}});
}

// "Next: holdfast submit --train_data_path data:wiki --valid_data_path data:wiki --vocab_size 8192"
std::string next_in_words(const std::string& name, const PushReport& report) {
  const auto has_tokens = [](const rendezvous::DataSetFile& file) { return file.tokens > 0; };
  const auto has = [&](const char* file) {
    const auto* const found = report.manifest.find(file);
    return found != nullptr && has_tokens(*found);
  };
  const auto first = std::ranges::find_if(report.manifest.files, has_tokens);
  if (first == report.manifest.files.end())
    return "None of its files has tokens (*.bin), so no job can train on it: `holdfast data prepare` makes such files.";
  const std::string file = has("train.bin") ? "" : "/" + first->name;
  return fmt::format("Next: holdfast submit --train_data_path data:{}{}{}{}", name, file,
                     has("val.bin") ? fmt::format(" --valid_data_path data:{}", name) : "",
                     report.vocab_size > 0 ? fmt::format(" --vocab_size {}", report.vocab_size) : "");
}

void push_files(const Options& options, const PushArguments& arguments) {
  const FilesToPush files = find_files_to_push(arguments.path);
  const std::string name = checked_name(arguments, files);
  for (const Skipped& one : files.skipped) fmt::print(stderr, "skipped: {} {}\n", one.name, one.why);
  std::optional<DataProgress> progress(std::in_place);
  std::function<void(const PushProgress&)> on_progress;
  if (!options.json) on_progress = [&](const PushProgress& now) { progress->show(now); };
  const PushReport report = push(options, files, name, on_progress);
  progress.reset();
  for (const std::string& note : report.notes) fmt::print(stderr, "note: {}\n", note);
  if (options.json) return print_pushed(options, name, files, report);
  const int64_t tokens = tokens_of(report.manifest), there = report.manifest.bytes() - report.sent_bytes;
  fmt::print("Pushed {}: {}, {}{}", name, rendezvous::counted(static_cast<int64_t>(files.files.size()), "file"),
             bytes_in_words(report.manifest.bytes()), tokens > 0 ? fmt::format(", {} tokens", count_text(tokens)) : "");
  fmt::print("{}.\n", there > 0 ? fmt::format("; {} of it were there already", bytes_in_words(there)) : "");
  fmt::print("{}\n", next_in_words(name, report));
}

std::string joined(const Json& texts) {
  std::string text;
  for (const Json& one : texts) text += (text.empty() ? "" : ",") + one.get<std::string>();
  return text.empty() ? "-" : text;
}

std::string names_of_files(const Json& files) {
  Json names = Json::array();
  for (const Json& file : files) names.push_back(text_at(file, "name"));
  return joined(names);
}

void list_sets(const Options& options) {
  Api api(options);
  const Json sets = api.list("/v1/data/sets", "data_sets");
  const Json room = api.get("/v1/data/sets?limit=1");
  if (options.json) {
    return print_json({{"data_sets", sets},
                       {"used_bytes", room.value("used_bytes", Json(nullptr))},
                       {"unneeded_bytes", room.value("unneeded_bytes", Json(nullptr))},
                       {"limit_bytes", room.value("limit_bytes", Json(nullptr))},
                       {"next_page_token", nullptr}});
  }
  if (sets.empty()) fmt::print("No data sets. Give one to the service: holdfast data push data/\n");
  Table table({"NAME", Column("SIZE").right(), Column("TOKENS").right(), Column("FILES").shrinks(1, 9).left_out(1), "PUSHED",
               Column("DIGEST").left_out(2), Column("USED BY").shrinks(2, 8)});
  for (const Json& set : sets) {
    table.add({text_at(set, "name", "-"), bytes_in_words(integer_at(set, "bytes")), count_text(integer_at(set, "tokens")),
               names_of_files(set.value("files", Json::array())), time_text(text_at(set, "pushed_at")),
               text_at(set, "digest").substr(0, 12), joined(set.value("jobs", Json::array()))});
  }
  if (!sets.empty()) table.print(options.wide);
  const int64_t unneeded = integer_at(room, "unneeded_bytes");
  fmt::print("{} are kept{}{}.\n", bytes_in_words(integer_at(room, "used_bytes")),
             has(room, "limit_bytes") ? fmt::format(" of at most {}", bytes_in_words(integer_at(room, "limit_bytes"))) : "",
             unneeded > 0 ? fmt::format("; {} of it are of pushes that have not ended", bytes_in_words(unneeded)) : "");
}

void remove_set(const Options& options, const std::string& name) {
  Api(options).remove("/v1/data/sets/" + percent_encoded(name));
  if (options.json) return print_json({{"name", name}, {"removed", true}});
  fmt::print("{} is removed; the service frees its room in the background\n", name);
}

}  // namespace

void add_data_set_commands(CLI::App& data, Options& options) {
  const auto arguments = std::make_shared<PushArguments>();
  CLI::App* push = add_command(data, options, "push", "Give a data set to the service; started again it goes on",
                               "holdfast data push data/ --name wiki");
  push->add_option("path", arguments->path, "Folder with train.bin and what belongs to it, or one file")
      ->required()
      ->type_name("DIR");
  push->add_option("--name", arguments->name, "What jobs call it: data:NAME [the folder's name]")->type_name("NAME");
  push->callback([&options, arguments] { push_files(options, *arguments); });

  CLI::App* list = add_command(data, options, "ls", "List the data sets that the service keeps", "holdfast data ls");
  add_wide_flag(*list, options);
  list->callback([&options] { list_sets(options); });

  const auto name = std::make_shared<std::string>();
  CLI::App* remove = add_command(data, options, "rm", "Remove a data set that no open job uses", "holdfast data rm wiki");
  remove->add_option("name", *name, "Its name, as `holdfast data ls` shows it")->required()->type_name("DATASET");
  remove->callback([&options, name] { remove_set(options, *name); });
}

}  // namespace holdfast::ops
