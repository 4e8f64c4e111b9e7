// Text to token files: survey the text, make the tokenizer, write the ids, put the files in place. The text is read twice, a
// file at a time.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "model/data/byte_tokenizer.h"
#include "model/data/documents.h"
#include "model/data/new_file.h"
#include "model/data/sentencepiece_tokenizer.h"
#include "model/data/text_files.h"
#include "model/data/token_file.h"
#include "model/data/token_writer.h"
#include "model/data/tokenizer.h"
#include "storage/checksum.h"

namespace holdfast::model {

namespace {

namespace fs = std::filesystem;
using Result = tl::expected<void, std::string>;

// Training documents for the tokenizer: all of them, or, when they pass the limit, those whose hash falls below a share
// that is halved as often as needed: spread evenly over the text, and the same whatever order they come in.
class TrainingSample {
 public:
  void add(std::string_view document, uint64_t seed) {
    const double place = document_place(document, ~seed);
    if (place >= share_) return;
    kept_.emplace_back(place, document);
    bytes_ += static_cast<int64_t>(document.size());
    for (; bytes_ > kTokenizerTrainingBytes; share_ /= 2) drop_from(share_ / 2);
  }
  void drop(std::string_view document) {
    bytes_ -= static_cast<int64_t>(document.size()) *
              static_cast<int64_t>(std::erase_if(kept_, [document](const auto& one) { return one.second == document; }));
  }
  int64_t bytes() const { return bytes_; }
  std::vector<std::string> take() {
    std::vector<std::string> documents;
    for (auto& [place, document] : kept_) documents.push_back(std::move(document));
    return documents;
  }

 private:
  void drop_from(double share) {
    std::erase_if(kept_, [share](const auto& one) { return one.first >= share; });
    bytes_ = 0;
    for (const auto& [place, document] : kept_) bytes_ += static_cast<int64_t>(document.size());
  }
  std::vector<std::pair<double, std::string>> kept_;
  double share_ = 1;
  int64_t bytes_ = 0;
};

struct Survey {
  std::vector<std::string> files;
  int64_t bytes = 0, documents = 0;
  int64_t below_fraction = 0;  // documents
  double lowest_place = 1;     // the document there is for validation, however small the fraction: a small text needs some, too
  std::string lowest_document;  // its text
  int64_t at_lowest = 0;        // how often it comes
  TrainingSample sample;

  void add(std::string_view document, const PrepareOptions& options) {
    const double place = document_place(document, options.seed);
    documents += 1;
    if (place < options.validation_fraction) {
      below_fraction += 1;
    } else {
      sample.add(document, options.seed);
    }
    if (place < lowest_place) lowest_place = place, lowest_document = document, at_lowest = 0;
    if (place <= lowest_place) at_lowest += 1;
  }
};

bool is_for_validation(double place, double lowest_place, const PrepareOptions& options) {
  return options.validation_fraction > 0 && (place < options.validation_fraction || place <= lowest_place);
}

Result check_options(const PrepareOptions& options) {
  if (options.output.empty()) return tl::unexpected(std::string("output: no folder was given."));
  if (options.format != "nanogpt" && options.format != "llm.c") {
    return tl::unexpected("format: \"" + options.format + "\", expected nanogpt or llm.c.");
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    return tl::unexpected("validation_fraction: " + std::to_string(options.validation_fraction) +
                          ", expected 0 (no validation file) or more, and below 1.");
  }
  return {};
}

tl::expected<Survey, std::string> survey_text(const PrepareOptions& options) {
  Survey survey;
  auto files = list_text_files(options.inputs);
  if (!files) return tl::unexpected(files.error());
  survey.files = std::move(*files);
  for (const std::string& path : survey.files) {
    const auto text = read_text_file(path);
    if (!text) return tl::unexpected(text.error());
    survey.bytes += static_cast<int64_t>(text->size());
    for (const std::string_view document : cut_into_documents(*text)) survey.add(document, options);
  }
  const bool lowest_is_held_out = options.validation_fraction > 0 && survey.below_fraction == 0;
  if (lowest_is_held_out) survey.sample.drop(survey.lowest_document);
  const int64_t held_out = lowest_is_held_out ? survey.at_lowest : survey.below_fraction;
  const int64_t needed = options.validation_fraction > 0 ? 2 : 1;
  if (survey.documents < needed) {
    return tl::unexpected("the input is too small: " + std::to_string(survey.bytes) + " bytes of text in " +
                          std::to_string(survey.documents) + " documents, expected at least " + std::to_string(needed) +
                          " documents (a file, or about " + std::to_string(kDocumentBytes) +
                          " bytes of a longer one). Give more text, or set validation_fraction to 0.");
  }
  if (held_out == survey.documents) {
    return tl::unexpected("all " + std::to_string(survey.documents) +
                          " documents fell to validation (equal texts fall together). Give more text, or a smaller "
                          "validation_fraction.");
  }
  return survey;
}

tl::expected<std::unique_ptr<Tokenizer>, std::string> make_tokenizer(const PrepareOptions& options, Survey& survey) {
  if (options.tokenizer == "bytes") return make_byte_tokenizer();
  if (options.tokenizer != "bpe") {
    auto loaded = Tokenizer::load(options.tokenizer);
    if (!loaded) return tl::unexpected("tokenizer (expected bpe, bytes or a path): " + loaded.error());
    if ((*loaded)->vocab_size() > 65536) {
      return tl::unexpected(options.tokenizer + ": its vocabulary of " + std::to_string((*loaded)->vocab_size()) +
                            " does not fit 16-bit token files (at most 65536). Use a smaller one.");
    }
    return loaded;
  }
  auto model = train_sentencepiece(survey.sample.take(), options.vocab_size);
  if (!model) return tl::unexpected(model.error());
  return load_sentencepiece(std::move(*model), "the tokenizer just trained");
}

// One token file being written, and which document was its last.
class Split {
 public:
  Split(const fs::path& path, const PrepareOptions& options, const Tokenizer& tokenizer)
      : writer_(path.string(), options.format), end_of_document_(tokenizer.end_of_document()) {}

  void add(size_t file, size_t document, std::span<const int32_t> ids) {
    const bool continues = file == file_ && document == document_ + 1;
    if (writer_.tokens() > 0 && !continues) end_document();
    file_ = file, document_ = document;
    writer_.add(ids);
  }
  // A description of the finished file, for info.json. It takes its name when it is published.
  tl::expected<nlohmann::ordered_json, std::string> finish() {
    end_document();
    if (const Result finished = writer_.finish(); !finished) return tl::unexpected(finished.error());
    const auto written = TokenFile::open(writer_.file().temporary_path());
    if (!written) return tl::unexpected(written.error());
    return nlohmann::ordered_json{{"file", fs::path(writer_.file().path()).filename().string()},
                                  {"tokens", writer_.tokens()},
                                  {"digest", (*written)->digest()}};
  }
  Result publish() { return writer_.publish(); }

 private:
  void end_document() {
    if (end_of_document_ >= 0) writer_.add({&end_of_document_, 1});
  }
  TokenWriter writer_;
  int32_t end_of_document_;
  size_t file_ = 0, document_ = 0;
};

// Pass over the text again and write its ids. `validation` is null when none is wanted.
Result write_tokens(const PrepareOptions& options, const Survey& survey, const Tokenizer& tokenizer, Split& train,
                    Split* validation) {
  for (size_t file = 0; file < survey.files.size(); ++file) {
    const auto text = read_text_file(survey.files[file]);
    if (!text) return tl::unexpected(text.error());
    const std::vector<std::string_view> documents = cut_into_documents(*text);
    for (size_t i = 0; i < documents.size(); ++i) {
      const bool held_out = is_for_validation(document_place(documents[i], options.seed), survey.lowest_place, options);
      (held_out ? *validation : train).add(file, i, tokenizer.encode(documents[i]));
    }
  }
  return {};
}

std::string describe_data(const PrepareOptions& options, const Survey& survey, const Tokenizer& tokenizer,
                          const nlohmann::ordered_json& train, const nlohmann::ordered_json& validation) {
  storage::RunningChecksum digest;
  digest.add(std::as_bytes(std::span(tokenizer.file_bytes())));
  const nlohmann::ordered_json info = {
      {"format", options.format},
      {"vocab_size", tokenizer.vocab_size()},
      {"tokenizer", tokenizer.kind()},
      {"tokenizer_file", tokenizer.file_name()},
      {"tokenizer_digest", digest.hex()},
      {"tokenizer_training_bytes", options.tokenizer == "bpe" ? survey.sample.bytes() : 0},
      {"end_of_document",
       tokenizer.end_of_document() < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(tokenizer.end_of_document())},
      {"files", survey.files.size()},
      {"bytes", survey.bytes},
      {"documents", survey.documents},
      {"seed", options.seed},
      {"validation_fraction", options.validation_fraction},
      {"train", train},
      {"validation", validation},
  };
  return info.dump(2) + "\n";
}

// The files of one run, all written under temporary names, take the place of an earlier run's. info.json goes first and comes
// last: while the folder has files of both, nothing says that they belong together. Files of the earlier run that this one
// does not write must not be taken for this one's.
Result put_in_place(const fs::path& folder, Split& train, Split* validation, NewFile& tokenizer, NewFile& info) {
  Result done = remove_file(info.path());
  if (done) done = train.publish();
  if (done && validation) done = validation->publish();
  if (done) done = tokenizer.publish();
  for (const std::string name : {"val.bin", "tokenizer.model", "tokenizer.json"}) {
    const bool is_ours = name == "val.bin" ? validation != nullptr : (folder / name).string() == tokenizer.path();
    if (done && !is_ours) done = remove_file((folder / name).string());
  }
  return done ? info.publish() : done;
}

tl::expected<PrepareReport, std::string> write_data(const PrepareOptions& options, const Survey& survey,
                                                    const Tokenizer& tokenizer) {
  const fs::path folder = options.output;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return tl::unexpected(folder.string() + ": cannot be made a folder: " + error.message() + ". Give another output folder.");
  Split train(folder / "train.bin", options, tokenizer);
  std::optional<Split> validation;
  if (options.validation_fraction > 0) validation.emplace(folder / "val.bin", options, tokenizer);
  const Result written = write_tokens(options, survey, tokenizer, train, validation ? &*validation : nullptr);
  if (!written) return tl::unexpected(written.error());

  const auto train_info = train.finish();
  if (!train_info) return tl::unexpected(train_info.error());
  nlohmann::ordered_json validation_info;
  if (validation) {
    auto finished = validation->finish();
    if (!finished) return tl::unexpected(finished.error());
    validation_info = std::move(*finished);
  }
  NewFile tokenizer_file((folder / tokenizer.file_name()).string()), info_file((folder / "info.json").string());
  const std::string info = describe_data(options, survey, tokenizer, *train_info, validation_info);
  tokenizer_file.write(tokenizer.file_bytes().data(), tokenizer.file_bytes().size());
  info_file.write(info.data(), info.size());
  Result done = tokenizer_file.finish();
  if (done) done = info_file.finish();
  if (done) done = put_in_place(folder, train, validation ? &*validation : nullptr, tokenizer_file, info_file);
  if (!done) return tl::unexpected(done.error());
  return PrepareReport{static_cast<int64_t>(survey.files.size()), survey.bytes, train_info->at("tokens"),
                       validation ? validation_info.at("tokens").get<int64_t>() : 0, tokenizer.vocab_size()};
}

}  // namespace

tl::expected<PrepareReport, std::string> prepare(const PrepareOptions& options) {
  if (const Result checked = check_options(options); !checked) return tl::unexpected(checked.error());
  auto survey = survey_text(options);
  if (!survey) return tl::unexpected(survey.error());
  const auto tokenizer = make_tokenizer(options, *survey);
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  return write_data(options, *survey, **tokenizer);
}

}  // namespace holdfast::model
