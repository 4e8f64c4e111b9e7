#include "model/data/prepare/token_files.h"

#include <filesystem>
#include <system_error>

#include "model/data/token_file.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;

std::string path_in(const PrepareOptions& options, const char* name) {
  return (fs::path(options.output) / name).string();
}

bool has_tokens(const std::string& path, int64_t tokens, const std::string& format) {
  std::error_code error;
  const auto bytes = fs::file_size(path + ".tmp", error);
  return !error && bytes >= static_cast<uintmax_t>(token_file_bytes(tokens, format));
}

}  // namespace

bool TokenFiles::has(const PrepareOptions& options, const JournalEntry& entry) {
  return has_tokens(path_in(options, "train.bin"), entry.train_tokens, options.format) &&
         (options.validation_fraction == 0 || has_tokens(path_in(options, "val.bin"), entry.validation_tokens, options.format));
}

TokenFiles::TokenFiles(const PrepareOptions& options, int32_t mark, const JournalEntry* from)
    : mark_(mark),
      train_(path_in(options, "train.bin"), options.format, from == nullptr ? std::nullopt : std::optional(from->train_tokens),
             from == nullptr ? 0 : from->train_marks) {
  if (options.validation_fraction == 0) return;
  validation_.emplace(path_in(options, "val.bin"), options.format,
                      from == nullptr ? std::nullopt : std::optional(from->validation_tokens),
                      from == nullptr ? 0 : from->validation_marks);
}

tl::expected<void, std::string> TokenFiles::state() const {
  auto good = train_.writer.state();
  return good && validation_ ? validation_->writer.state() : good;
}

void TokenFiles::add(std::span<const Unit> units) {
  for (const Unit& unit : units) {
    File& file = unit.validates ? *validation_ : train_;
    file.writer.add(unit.ids);
    if (!unit.ends_document || mark_ < 0) continue;
    file.writer.add({&mark_, 1});
    ++file.marks;
  }
}

int64_t TokenFiles::tokens() const {
  return train_.writer.tokens() + (validation_ ? validation_->writer.tokens() : 0);
}

tl::expected<void, std::string> TokenFiles::keep(JournalEntry& entry) {
  auto done = train_.writer.keep();
  if (done && validation_) done = validation_->writer.keep();
  if (!done) return done;
  entry.train_tokens = train_.writer.tokens();
  entry.train_marks = train_.marks;
  entry.validation_tokens = validation_ ? validation_->writer.tokens() : 0;
  entry.validation_marks = validation_ ? validation_->marks : 0;
  return {};
}

tl::expected<nlohmann::ordered_json, std::string> TokenFiles::finish(File& file) {
  if (const auto finished = file.writer.finish(); !finished) return tl::unexpected(finished.error());
  const auto written = TokenFile::open(file.writer.file().temporary_path());
  if (!written) return tl::unexpected(written.error());
  return nlohmann::ordered_json{{"file", fs::path(file.writer.file().path()).filename().string()},
                                {"tokens", file.writer.tokens()},
                                {"end_of_document_marks", file.marks},
                                {"digest", (*written)->digest()}};
}

tl::expected<TokenFiles::Descriptions, std::string> TokenFiles::finish() {
  auto train = finish(train_);
  if (!train) return tl::unexpected(train.error());
  nlohmann::ordered_json validation;
  if (validation_) {
    auto finished = finish(*validation_);
    if (!finished) return tl::unexpected(finished.error());
    validation = std::move(*finished);
  }
  return Descriptions(std::move(*train), std::move(validation));
}

tl::expected<void, std::string> TokenFiles::publish() {
  auto done = train_.writer.publish();
  if (done && validation_) done = validation_->writer.publish();
  return done;
}

}  // namespace holdfast::model
