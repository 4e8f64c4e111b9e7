// `holdfast data`: text into token files, what a token file holds, and the data sets that the service keeps.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>
#include <thread>

#include "model/data/describe.h"
#include "model/data/prepare/prepare.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"
#include "ops/cli/data/progress.h"
#include "ops/cli/data/sets.h"
#include "ops/cli/terminal/format.h"
#include "rendezvous/text/plural.h"

namespace holdfast::ops {
namespace {

void prepare(const Options& options, model::PrepareOptions arguments) {
  std::optional<DataProgress> progress(std::in_place);
  if (!options.json) arguments.on_progress = [&](const model::PrepareProgress& now) { progress->show(now); };
  const auto report = model::prepare(arguments);
  progress.reset();
  if (!report) throw Failure{kBadInput, report.error()};
  if (options.json) {
    return print_json({{"output", arguments.output},
                       {"files", report->files},
                       {"texts", report->texts},
                       {"duplicates", report->duplicates},
                       {"bytes", report->bytes},
                       {"train_tokens", report->train_tokens},
                       {"validation_tokens", report->validation_tokens},
                       {"vocab_size", report->vocab_size},
                       {"gone_on_from", report->gone_on_from}});
  }
  if (report->gone_on_from > 0) {
    fmt::print("Went on behind the {} documents that an interrupted run had written.\n", count_text(report->gone_on_from));
  }
  fmt::print("Read {}, {} of text. Wrote {}: {} tokens to train on, {} to validate on, vocabulary {}.\n",
             rendezvous::counted(report->files, "file"), bytes_text(static_cast<double>(report->bytes)), arguments.output,
             count_text(report->train_tokens), count_text(report->validation_tokens), report->vocab_size);
  if (report->duplicates > 0) {
    fmt::print("Left out {} of {} texts: each was there before.\n", count_text(report->duplicates), count_text(report->texts));
  }
  fmt::print("Next: holdfast submit --train_data_path {0}/train.bin{1} --vocab_size {2}\n", arguments.output,
             report->validation_tokens > 0 ? fmt::format(" --valid_data_path {}/val.bin", arguments.output) : "",
             report->vocab_size);
}

void info(const Options& options, const std::string& path) {
  const auto data = model::describe_data_file(path);
  if (!data) throw Failure{kBadInput, data.error()};
  const Json prepared = Json::parse(data->info, nullptr, false);
  if (options.json) {
    return print_json({{"path", data->path},
                       {"format", data->format},
                       {"bytes", data->bytes},
                       {"tokens", data->tokens},
                       {"largest_id", data->largest_id},
                       {"distinct_ids", data->distinct_ids},
                       {"digest", data->digest},
                       {"end_of_document_marks", data->marks < 0 ? Json(nullptr) : Json(data->marks)},
                       {"as_prepared", data->listed},
                       {"info", prepared.is_discarded() ? Json(nullptr) : prepared}});
  }
  fmt::print("{:<14}{}\n{:<14}{}\n{:<14}{}\n{:<14}{}\n", "file", data->path, "format", data->format, "size",
             bytes_text(static_cast<double>(data->bytes)), "tokens", data->tokens);
  fmt::print("{:<14}{} different; the largest is {}, so vocab_size is at least {}\n{:<14}{}\n", "ids", data->distinct_ids,
             data->largest_id, data->largest_id + 1, "digest", data->digest);
  if (data->marks >= 0) fmt::print("{:<14}{} marks (id {})\n", "end of text", count_text(data->marks), data->mark);
  if (data->listed) fmt::print("{:<14}as `holdfast data prepare` wrote it\n", "origin");
}

}  // namespace

void add_data_commands(CLI::App& app, Options& options) {
  CLI::App* data = add_group(app, "data", "Prepare token files, look at them, and give them to the service",
                             "holdfast data prepare books/ --output data");

  const auto arguments = std::make_shared<model::PrepareOptions>();
  arguments->threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  CLI::App* command = add_local_command(*data, options, "prepare", "Turn text into train.bin, val.bin and a tokenizer",
                                        "holdfast data prepare books/ more.txt --output data --vocab_size 8192");
  command
      ->add_option("inputs", arguments->inputs,
                   "Text files, .jsonl, .csv, dumps of Wikipedia (.xml), or folders of them; packed and in archives, too")
      ->required()
      ->type_name("FILE");
  command->add_option("--output,-o", arguments->output, "Folder to write to")->required()->type_name("DIR");
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "bpe (learned from the text), bytes, gpt2:DIR (GPT-2's vocabulary), or a folder that has one")
      ->capture_default_str();
  command->add_option("--vocab_size", arguments->vocab_size, "Tokens to learn, for bpe")->capture_default_str();
  command->add_option("--validation_fraction", arguments->validation_fraction, "Share of the documents to validate on")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "nanogpt or llm.c")->capture_default_str();
  command->add_option("--seed", arguments->seed, "Decides which documents validate")->capture_default_str();
  command->add_option("--field", arguments->field, "Field of the text in .jsonl, .csv and .tsv")->capture_default_str();
  command->add_flag("--dedup", arguments->dedup, "Of equal texts keep the first");
  command->add_option("--threads", arguments->threads, "Threads that make tokens")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->callback([&options, arguments] { prepare(options, *arguments); });

  const auto path = std::make_shared<std::string>();
  CLI::App* describe = add_local_command(*data, options, "info", "Describe a token file", "holdfast data info data/train.bin");
  describe->add_option("file", *path, "A .bin file of nanoGPT's or llm.c's kind")->required()->type_name("FILE");
  describe->callback([&options, path] { info(options, *path); });
  add_data_set_commands(*data, options);
}

}  // namespace holdfast::ops
