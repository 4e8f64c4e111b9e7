#include "model/data/prepare/journal.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "model/data/new_file.h"
#include "storage/checksum.h"

namespace holdfast::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

std::string journal_key(const PrepareOptions& options, const std::vector<std::string>& files, const std::string& tokenizer) {
  constexpr int kVersion = 1;  // of what a run makes of the same input
  json all = {kVersion,       options.tokenizer, options.vocab_size, options.validation_fraction,
              options.format, options.seed,      options.field,      options.dedup};
  all.push_back(json::binary(bytes_of(tokenizer)));
  for (const std::string& file : files) {
    std::error_code error;
    const auto changed = fs::last_write_time(file, error).time_since_epoch().count();
    all.push_back({file, fs::file_size(file, error), changed});
  }
  storage::RunningChecksum digest;
  const std::vector<uint8_t> bytes = json::to_cbor(all);
  digest.add(std::as_bytes(std::span(bytes)));
  return digest.hex();
}

Journal::Journal(const PrepareOptions& options, std::string key)
    : path_((fs::path(options.output) / "unfinished.cbor").string()),
      key_(std::move(key)),
      every_(options.journal_every),
      next_(std::chrono::steady_clock::now() + every_) {}

std::optional<JournalEntry> Journal::read() const {
  std::ifstream file(path_, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  const json kept = json::from_cbor(bytes, true, false);
  if (!kept.is_object() || kept.value("key", json()) != key_) return std::nullopt;
  try {
    JournalEntry entry;
    entry.survey = survey_of(kept.at("survey"));
    const auto& tokenizer = kept.at("tokenizer").get_binary();
    entry.tokenizer.assign(tokenizer.begin(), tokenizer.end());
    kept.at("documents").get_to(entry.documents);
    kept.at("train_tokens").get_to(entry.train_tokens);
    kept.at("validation_tokens").get_to(entry.validation_tokens);
    kept.at("train_marks").get_to(entry.train_marks);
    kept.at("validation_marks").get_to(entry.validation_marks);
    return entry;
  } catch (const json::exception&) {
    return std::nullopt;  // damaged: the run starts at its beginning
  }
}

tl::expected<void, std::string> Journal::write(const JournalEntry& entry) {
  const json kept = {{"key", key_},
                     {"survey", to_json(entry.survey)},
                     {"tokenizer", json::binary(bytes_of(entry.tokenizer))},
                     {"documents", entry.documents},
                     {"train_tokens", entry.train_tokens},
                     {"validation_tokens", entry.validation_tokens},
                     {"train_marks", entry.train_marks},
                     {"validation_marks", entry.validation_marks}};
  const std::vector<uint8_t> bytes = json::to_cbor(kept);
  NewFile file(path_);
  file.write(bytes.data(), bytes.size());
  auto done = file.finish();
  if (done) done = file.publish();
  if (!done) return done;
  is_written_ = true;
  next_ = std::chrono::steady_clock::now() + every_;
  return {};
}

tl::expected<void, std::string> Journal::remove() {
  return remove_file(path_);
}

}  // namespace holdfast::model
