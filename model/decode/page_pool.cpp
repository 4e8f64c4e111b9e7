#include "model/decode/page_pool.h"

#include <algorithm>
#include <cassert>

#include "kernels/decode_ops.h"
#include "storage/checksum.h"

namespace holdfast::model {

PagePool::PagePool(int64_t pages) : pages_(static_cast<size_t>(pages)) {
  for (size_t i = 0; i < pages_.size(); ++i) pages_[i].place = idle_.insert(idle_.end(), static_cast<int32_t>(i));
}

PagePool::Key PagePool::key_after(const Key& before, std::span<const int32_t> tokens) {
  assert(tokens.size() == static_cast<size_t>(kernels::kPageTokens));
  std::array<std::byte, sizeof(Key) + static_cast<size_t>(kernels::kPageTokens) * sizeof(int32_t)> together;
  const auto behind = std::ranges::copy(before, together.begin()).out;
  std::ranges::copy(std::as_bytes(tokens), behind);
  return storage::checksum_128(together);
}

std::optional<int32_t> PagePool::hold(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return {};
  Page& page = pages_[static_cast<size_t>(found->second)];
  if (page.holders++ == 0) {
    idle_.erase(page.place);
    ++held_;
  }
  return found->second;
}

std::optional<int32_t> PagePool::take() {
  if (idle_.empty()) return {};
  const int32_t number = idle_.front();
  idle_.pop_front();
  Page& page = pages_[static_cast<size_t>(number)];
  if (page.key) by_key_.erase(*page.key);
  page = Page();
  page.holders = 1;
  ++held_;
  return number;
}

void PagePool::keep(int32_t page, const Key& key) {
  Page& kept = pages_[static_cast<size_t>(page)];
  assert(kept.holders > 0 && !kept.key);
  if (by_key_.emplace(key, page).second) kept.key = key;
}

// A page without a key is of no use to anybody: it is the next to be given.
void PagePool::let_go(int32_t page) {
  Page& held = pages_[static_cast<size_t>(page)];
  assert(held.holders > 0);
  if (--held.holders > 0) return;
  --held_;
  held.place = idle_.insert(held.key ? idle_.end() : idle_.begin(), page);
}

}  // namespace holdfast::model
