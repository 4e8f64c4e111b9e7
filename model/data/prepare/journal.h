// The state of a long run, so that one that was killed can go on: in the output folder, beside the token files that are being
// written.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "model/data/prepare/prepare.h"
#include "model/data/prepare/survey.h"

namespace holdfast::model {

struct JournalEntry {
  Survey survey;                                    // without its sample
  std::string tokenizer;                            // the bytes of one that was trained
  int64_t documents = 0;                            // that are written
  int64_t train_tokens = 0, validation_tokens = 0;  // likewise
  int64_t train_marks = 0, validation_marks = 0;    // end-of-document ids among them
};

class Journal {
 public:
  // `key` says what the run makes of which files: an entry of another is not gone on from.
  Journal(const PrepareOptions& options, std::string key);

  // The last entry of a run that was killed; nothing where there is none of this key.
  std::optional<JournalEntry> read() const;
  // Whether it is time to write; always, once something was written.
  bool is_due() const { return std::chrono::steady_clock::now() >= next_; }
  bool is_written() const { return is_written_; }
  // The token files are durable up to what the entry says.
  tl::expected<void, std::string> write(const JournalEntry& entry);
  tl::expected<void, std::string> remove();

 private:
  std::string path_, key_;
  std::chrono::milliseconds every_;
  std::chrono::steady_clock::time_point next_;
  bool is_written_ = false;
};

// All that decides what a run writes: options, files with size and time, and a tokenizer that is there already (its bytes).
std::string journal_key(const PrepareOptions& options, const std::vector<std::string>& files, const std::string& tokenizer);

}  // namespace holdfast::model
