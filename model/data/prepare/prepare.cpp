// Text to token files: survey the text, make the tokenizer, write the ids, put the files in place. The text is read twice.
#include "model/data/prepare/prepare.h"

#include <fmt/format.h>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "model/data/byte_tokenizer.h"
#include "model/data/new_file.h"
#include "model/data/prepare/journal.h"
#include "model/data/prepare/progress.h"
#include "model/data/prepare/survey.h"
#include "model/data/prepare/token_files.h"
#include "model/data/prepare/units.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/data/text/input_files.h"
#include "model/data/tokenizer.h"
#include "storage/checksum.h"
#include "storage/parallel.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using Result = tl::expected<void, std::string>;

Result check_options(const PrepareOptions& options) {
  if (options.output.empty()) return tl::unexpected(std::string("output: no folder was given."));
  if (options.format != "nanogpt" && options.format != "llm.c") {
    return tl::unexpected(fmt::format("format: \"{}\", expected nanogpt or llm.c.", options.format));
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return tl::unexpected(fmt::format("validation_fraction: {}, expected 0 (no validation file) or more, and below 1.",
                                      options.validation_fraction));
  }
  return {};
}

using Made = tl::expected<std::unique_ptr<Tokenizer>, std::string>;

// A tokenizer that is there before the text is read; null: it is to be trained.
Made find_tokenizer(const PrepareOptions& options) {
  if (options.tokenizer == "bpe") return nullptr;
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  auto loaded = Tokenizer::load(options.tokenizer);
  if (!loaded) return tl::unexpected("tokenizer (expected bpe, bytes, gpt2:PATH or a path): " + loaded.error());
  if ((*loaded)->vocab_size() > 65536) {
    return tl::unexpected(
        fmt::format("{}: its vocabulary of {} does not fit 16-bit token files (at most 65536). Use a smaller one.",
                    options.tokenizer, (*loaded)->vocab_size()));
  }
  return loaded;
}

std::string describe_data(const PrepareOptions& options, size_t files, const Survey& survey, const Tokenizer& tokenizer,
                          const nlohmann::ordered_json& train, const nlohmann::ordered_json& validation) {
  storage::RunningChecksum digest;
  digest.add(std::as_bytes(std::span(tokenizer.file_bytes())));
  const int32_t mark = tokenizer.end_of_document();
  const nlohmann::ordered_json info = {
      {"format", options.format},
      {"vocab_size", tokenizer.vocab_size()},
      {"tokenizer", tokenizer.kind()},
      {"tokenizer_file", tokenizer.file_name()},
      {"tokenizer_digest", digest.hex()},
      {"tokenizer_training_bytes", options.tokenizer == "bpe" ? survey.sample_bytes : 0},
      {"end_of_document", mark < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(mark)},
      {"files", files},
      {"texts", survey.texts},
      {"duplicates", options.dedup ? nlohmann::ordered_json(survey.duplicate_texts()) : nlohmann::ordered_json()},
      {"bytes", survey.bytes},
      {"documents", survey.documents},
      {"seed", options.seed},
      {"validation_fraction", options.validation_fraction},
      {"train", train},
      {"validation", validation},
  };
  return info.dump(2) + "\n";
}

// One run, from the files' names to the folder's.
class Run {
 public:
  Run(const PrepareOptions& options, std::vector<std::string> files) : options_(options), files_(std::move(files)) {}

  tl::expected<PrepareReport, std::string> run() {
    if (Result good = choose_tokenizer(); !good) return tl::unexpected(good.error());
    Journal journal(options_, journal_key(options_, files_, tokenizer_ ? tokenizer_->file_bytes() : ""));
    Result done = check_output();
    if (done) done = begin(journal);
    if (done) done = open_output(journal);
    if (done && journal.is_due()) done = keep(journal);
    if (done) done = write_tokens(journal);
    if (done) done = finish(journal);
    if (done) return report_;
    return tl::unexpected(
        journal.is_written() || goes_on_
            ? done.error() + fmt::format(" The {} documents that are written are kept: the same command goes on behind them.",
                                         entry_.documents)
            : done.error());
  }

 private:
  struct Batch {
    std::vector<Unit> units;
    int64_t documents = 0, packed_bytes = 0, text_bytes = 0;  // read so far
    bool is_last = false;
  };
  Result choose_tokenizer() {
    auto found = find_tokenizer(options_);
    if (!found) return tl::unexpected(found.error());
    tokenizer_ = std::move(*found);
    return {};
  }

  // From the journal of a run that was killed, or from the text.
  Result begin(const Journal& journal) {
    if (auto kept = journal.read(); kept && TokenFiles::has(options_, *kept)) {
      entry_ = std::move(*kept);
      report_.gone_on_from = entry_.documents;
      goes_on_ = true;
    } else {
      auto survey = survey_text(options_, files_);
      if (!survey) return tl::unexpected(survey.error());
      entry_.survey = std::move(*survey);
    }
    if (tokenizer_) return {};
    if (entry_.tokenizer.empty()) {
      auto trained = train_sentencepiece(std::exchange(entry_.survey.sample, {}), options_.vocab_size);
      if (!trained) return tl::unexpected(trained.error());
      entry_.tokenizer = std::move(*trained);
    }
    auto made = load_sentencepiece(entry_.tokenizer, "the tokenizer just trained");
    if (!made) return tl::unexpected(made.error());
    tokenizer_ = std::move(*made);
    return {};
  }

  // Files of these names that no run of this command has made are somebody's.
  Result check_output() const {
    const fs::path folder = options_.output;
    std::error_code error;
    for (const char* ours : {"info.json", "info.json.tmp", "unfinished.cbor"}) {
      if (fs::exists(folder / ours, error)) return {};
    }
    for (const char* name : {"train.bin", "val.bin", "tokenizer.model", "tokenizer.json"}) {
      if (!fs::exists(folder / name, error)) continue;
      return tl::unexpected(fmt::format(
          "{}: has {}, and no info.json, so `data prepare` did not make it. Give another output folder, or move it away.",
          options_.output, name));
    }
    return {};
  }

  Result open_output(Journal& journal) {
    std::error_code error;
    fs::create_directories(options_.output, error);
    if (error)
      return tl::unexpected(
          fmt::format("{}: cannot be made a folder: {}. Give another output folder.", options_.output, error.message()));
    output_.emplace(options_, tokenizer_->end_of_document(), goes_on_ ? &entry_ : nullptr);
    if (Result good = output_->state(); !good) return good;
    return goes_on_ ? Result() : journal.remove();  // another run's must not be taken for this one's
  }

  Result keep(Journal& journal) {
    if (Result kept = output_->keep(entry_); !kept) return kept;
    return journal.write(entry_);
  }

  // The next documents, as units. On a thread beside the one that encodes.
  tl::expected<Batch, std::string> read_batch(DocumentReader& reader) {
    Batch batch;
    size_t bytes = 0;
    Document document;
    while (bytes < options_.batch_bytes) {
      const auto found = reader.next(document);
      if (!found) return tl::unexpected(found.error());
      batch.is_last = !*found;
      if (batch.is_last) break;
      const bool validates = is_for_validation(document.text, entry_.survey.lowest_place, options_);
      planners_[validates ? 1 : 0].add(document, batch.units);
      bytes += document.text.size();
      if (++documents_read_ <= report_.gone_on_from) batch.units.clear();
    }
    if (batch.is_last) {
      for (UnitPlanner& planner : planners_) planner.end(batch.units);
    }
    batch.documents = documents_read_;
    batch.packed_bytes = reader.packed_bytes();
    batch.text_bytes = reader.text_bytes();
    return batch;
  }

  Result encode(std::vector<Unit>& units) {
    const auto encoded = storage::in_parallel(units.size(), options_.threads, [&](size_t i, int) -> storage::Result<void> {
      units[i].ids = tokenizer_->encode(units[i].text);
      return {};
    });
    if (!encoded) return tl::unexpected(encoded.error().message);
    return {};
  }

  Result write_tokens(Journal& journal) {
    for (const bool validates : {false, true}) planners_.emplace_back(*tokenizer_, validates);
    DocumentReader reader(files_, record_options(options_),
                          options_.dedup ? [&](int64_t record, std::string_view) { return !entry_.survey.is_duplicate(record); }
                                         : DocumentReader::Keep());
    ProgressTeller teller(options_, files_, 2);
    const auto read_ahead = [&] { return std::async(std::launch::async, [&] { return read_batch(reader); }); };
    for (auto next = read_ahead();;) {
      auto batch = next.get();
      if (!batch) return tl::unexpected(batch.error());
      if (!batch->is_last) next = read_ahead();
      if (Result encoded = encode(batch->units); !encoded) return encoded;
      output_->add(batch->units);
      entry_.documents = std::max(entry_.documents, batch->documents);
      if (!batch->is_last && journal.is_due() && batch->documents > report_.gone_on_from) {
        if (Result kept = keep(journal); !kept) return kept;
      }
      teller.tell({.bytes = batch->packed_bytes,
                   .text_bytes = batch->text_bytes,
                   .tokens = output_->tokens(),
                   .skips = batch->units.empty()});
      if (batch->is_last) return check_unchanged(reader);
    }
  }

  Result check_unchanged(const DocumentReader& reader) const {
    const Survey& before = entry_.survey;
    if (documents_read_ == before.documents && reader.records() == before.texts && reader.text_bytes() == before.bytes)
      return {};
    return tl::unexpected(
        fmt::format("the input changed while it was read: it had {} texts of {} bytes, and then {} of {}. Start again.",
                    before.texts, before.bytes, reader.records(), reader.text_bytes()));
  }

  Result finish(Journal& journal) {
    const auto described = output_->finish();
    if (!described) return tl::unexpected(described.error());
    const auto& [train, validation] = *described;
    const fs::path folder = options_.output;
    NewFile tokenizer_file((folder / tokenizer_->file_name()).string()), info_file((folder / "info.json").string());
    const std::string info = describe_data(options_, files_.size(), entry_.survey, *tokenizer_, train, validation);
    tokenizer_file.write(tokenizer_->file_bytes().data(), tokenizer_->file_bytes().size());
    info_file.write(info.data(), info.size());
    Result done = tokenizer_file.finish();
    if (done) done = info_file.finish();
    if (done) done = put_in_place(tokenizer_file, info_file);
    if (done) done = journal.remove();
    if (!done) return done;
    report_.files = static_cast<int64_t>(files_.size());
    report_.texts = entry_.survey.texts;
    report_.duplicates = entry_.survey.duplicate_texts();
    report_.bytes = entry_.survey.bytes;
    report_.train_tokens = train.at("tokens");
    report_.validation_tokens = validation.is_null() ? 0 : validation.at("tokens").get<int64_t>();
    report_.vocab_size = tokenizer_->vocab_size();
    return {};
  }

  // The files of one run, all written under temporary names, take the place of an earlier run's. info.json goes first and comes
  // last: while the folder has files of both, nothing says that they belong together. Files of the earlier run that this one
  // does not write must not be taken for this one's.
  Result put_in_place(NewFile& tokenizer, NewFile& info) {
    const fs::path folder = options_.output;
    Result done = remove_file(info.path());
    if (done) done = output_->publish();
    if (done) done = tokenizer.publish();
    for (const std::string name : {"val.bin", "tokenizer.model", "tokenizer.json"}) {
      const bool is_ours = name == "val.bin" ? options_.validation_fraction > 0 : (folder / name).string() == tokenizer.path();
      if (done && !is_ours) done = remove_file((folder / name).string());
    }
    return done ? info.publish() : done;
  }

  const PrepareOptions& options_;
  std::vector<std::string> files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  JournalEntry entry_;
  PrepareReport report_;
  bool goes_on_ = false;  // from what a run that was killed has written
  std::optional<TokenFiles> output_;
  std::vector<UnitPlanner> planners_;  // of the training and the validation file
  int64_t documents_read_ = 0;
};

}  // namespace

tl::expected<PrepareReport, std::string> prepare(const PrepareOptions& options) {
  if (const Result checked = check_options(options); !checked) return tl::unexpected(checked.error());
  auto files = list_input_files(options.inputs);
  if (!files) return tl::unexpected(files.error());
  return Run(options, std::move(*files)).run();
}

}  // namespace holdfast::model
