#include "model/data/byte_pairs/encoder.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <tuple>

namespace holdfast::model {
namespace {

constexpr size_t kScannedAtMost = 96;  // ids; above, a queue of pairs is quicker than looking at all of them for each merge

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Looks at every pair for each merge.
void merge_by_scanning(const MergeTable& merges, std::vector<int32_t>& ids) {
  MergeTable::Found pairs[kScannedAtMost];  // of each id with the next
  size_t count = ids.size();
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = count;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (pairs[i].rank != MergeTable::kNone && (best == count || pairs[i].rank < pairs[best].rank)) best = i;
    }
    if (best == count) break;
    ids[best] = pairs[best].merged;
    for (size_t i = best + 1; i + 1 < count; ++i) ids[i] = ids[i + 1], pairs[i] = pairs[i + 1];
    --count;
    pairs[best] = best + 1 < count ? merges.find(ids[best], ids[best + 1]) : MergeTable::Found{};
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
  }
  ids.resize(count);
}

// Takes pairs from a queue in the order of their merges; one whose ids have changed meanwhile is passed over.
class MergeQueue {
 public:
  MergeQueue(const MergeTable& merges, std::vector<int32_t>& ids)
      : merges_(merges), ids_(ids), next_(ids.size()), before_(ids.size()) {
    for (size_t i = 0; i < ids.size(); ++i) next_[i] = i + 1, before_[i] = i - 1;
    for (size_t i = 0; i + 1 < ids.size(); ++i) add(i);
  }
  void run() {
    while (!queue_.empty()) {
      const Pair pair = queue_.top();
      queue_.pop();
      const size_t right = next_[pair.at];
      if (ids_[pair.at] != pair.left || right >= ids_.size() || ids_[right] != pair.right) continue;
      ids_[pair.at] = pair.merged;
      ids_[right] = MergeTable::kNone;
      next_[pair.at] = next_[right];
      if (next_[right] < ids_.size()) before_[next_[right]] = pair.at;
      add(pair.at);
      if (pair.at > 0) add(before_[pair.at]);
    }
    std::erase(ids_, MergeTable::kNone);
  }

 private:
  struct Pair {
    int32_t rank;
    size_t at;
    int32_t left, right, merged;
    bool operator>(const Pair& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };
  void add(size_t at) {
    if (next_[at] >= ids_.size()) return;
    const int32_t left = ids_[at], right = ids_[next_[at]];
    const MergeTable::Found found = merges_.find(left, right);
    if (found.rank != MergeTable::kNone) queue_.push({found.rank, at, left, right, found.merged});
  }
  const MergeTable& merges_;
  std::vector<int32_t>& ids_;
  std::vector<size_t> next_, before_;  // places of the neighbours that are left
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue_;
};

}  // namespace

MergeTable::MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 2)) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (pair * 0x9E3779B97F4A7C15U) >> 20 & mask;
  while (slots_[at].pair != pair && slots_[at].pair != UINT64_MAX) at = (at + 1) & mask;
  return at;
}

bool MergeTable::add(BytePairVocabulary::Merge merge) {
  Slot& slot = slots_[slot_of(pair_of(merge.left, merge.right))];
  if (slot.pair != UINT64_MAX) return false;
  slot = {pair_of(merge.left, merge.right), {count_++, merge.merged}};
  return true;
}

MergeTable::Found MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].found;
}

void merge_pairs(const MergeTable& merges, std::vector<int32_t>& ids) {
  if (ids.size() <= kScannedAtMost) return merge_by_scanning(merges, ids);
  MergeQueue(merges, ids).run();
}

BytePairEncoder::BytePairEncoder(const BytePairVocabulary& vocabulary) : merges_(vocabulary.merges.size()) {
  const auto is_special = [&](int32_t id) { return std::ranges::binary_search(vocabulary.special_ids, id); };
  const auto count = static_cast<int32_t>(vocabulary.tokens.size());
  for (int32_t id = count - 1; id >= 0; --id) {  // the lowest of several ids for one byte stays
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    if (token.size() == 1 && !is_special(id)) id_of_byte_[static_cast<unsigned char>(token[0])] = id;
  }
  for (const auto& merge : vocabulary.merges) merges_.add(merge);
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < count; ++id) {
    const std::string& token = vocabulary.tokens[static_cast<size_t>(id)];
    ids.clear();
    merge_word(token, ids);
    if (ids.size() == 1 && ids[0] == id) whole_words_.emplace(token, id);
  }
}

void BytePairEncoder::merge_word(std::string_view word, std::vector<int32_t>& ids) const {
  thread_local std::vector<int32_t> parts;
  parts.clear();
  for (const char byte : word) parts.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
  merge_pairs(merges_, parts);
  ids.insert(ids.end(), parts.begin(), parts.end());
}

void BytePairEncoder::append(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) return ids.push_back(whole->second);
  merge_word(word, ids);
}

}  // namespace holdfast::model
