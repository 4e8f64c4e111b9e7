// Byte pair encoding (Sennrich, Haddow, Birch 2016, algorithm 1) of one word: of the pairs that stand side by side the one
// whose merge comes first is merged, the leftmost of equals, until none can be.
//
// Thread: `append` from any number of threads at once. A word of n bytes takes time n log n, however hostile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/data/byte_pairs/vocabulary.h"

namespace holdfast::model {

// A table of merges, which grows: the one that is added first is applied first.
class MergeTable {
 public:
  static constexpr int32_t kNone = -1;
  struct Found {
    int32_t rank = kNone, merged = kNone;
  };

  explicit MergeTable(size_t merges);  // how many will be added
  // False where the pair is there already: the first merge of a pair counts.
  bool add(BytePairVocabulary::Merge merge);
  Found find(int32_t left, int32_t right) const;  // rank kNone: no such merge

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    Found found;
  };
  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;  // open addressing, half full at most
  int32_t count_ = 0;
};

// Merges neighbours in `ids` until none can be merged.
void merge_pairs(const MergeTable& merges, std::vector<int32_t>& ids);

class BytePairEncoder {
 public:
  // `vocabulary` is one that `check` accepts, and outlives the encoder.
  explicit BytePairEncoder(const BytePairVocabulary& vocabulary);

  // Appends the ids of one word.
  void append(std::string_view word, std::vector<int32_t>& ids) const;

 private:
  void merge_word(std::string_view word, std::vector<int32_t>& ids) const;

  MergeTable merges_;
  int32_t id_of_byte_[256] = {};
  std::unordered_map<std::string_view, int32_t> whole_words_;  // tokens that merging makes of their own bytes
};

}  // namespace holdfast::model
