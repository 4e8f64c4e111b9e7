// The token files that a run writes: train.bin and, where a part of the text validates, val.bin.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "model/data/prepare/journal.h"
#include "model/data/prepare/prepare.h"
#include "model/data/prepare/units.h"
#include "model/data/token_writer.h"

namespace holdfast::model {

class TokenFiles {
 public:
  // Goes on behind what `from` says is written; null: made anew. `mark`: the end-of-document id; -1: none.
  TokenFiles(const PrepareOptions& options, int32_t mark, const JournalEntry* from);
  // Whether both can be written, and nobody else writes them.
  tl::expected<void, std::string> state() const;
  // Whether the files are there that an entry says are written.
  static bool has(const PrepareOptions& options, const JournalEntry& entry);

  void add(std::span<const Unit> units);
  int64_t tokens() const;
  // All that was added is durable, and stays when the process ends; `entry` gets how much it is.
  tl::expected<void, std::string> keep(JournalEntry& entry);
  // Descriptions of both finished files for info.json, the second null where there is none. They take their names by `publish`.
  using Descriptions = std::pair<nlohmann::ordered_json, nlohmann::ordered_json>;
  tl::expected<Descriptions, std::string> finish();
  tl::expected<void, std::string> publish();

 private:
  struct File {
    File(const std::string& path, const std::string& format, std::optional<int64_t> tokens, int64_t kept_marks)
        : writer(path, format, tokens), marks(kept_marks) {}
    TokenWriter writer;
    int64_t marks;
  };
  static tl::expected<nlohmann::ordered_json, std::string> finish(File& file);

  int32_t mark_;
  File train_;
  std::optional<File> validation_;
};

}  // namespace holdfast::model
