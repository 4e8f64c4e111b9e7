// The pages of keys and values: who holds which, and which hold the beginning of a text that may come again.
//
// A page that is full, and all before it, is found again by its tokens: its key is the hash of them and of the key of the page
// before it (128 bits). Sequences that begin alike hold the same pages, and keys and values being a function of the tokens
// before them, neither sees any of it. Promises: a page that is held is never given to another; of those that nobody holds the
// one that was let go first is given first. Pure. Thread: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace holdfast::model {

class PagePool {
 public:
  using Key = std::array<std::byte, 16>;
  explicit PagePool(int64_t pages);

  // That of a page with these tokens (kPageTokens of them), after the pages of `before`; a text's first page comes after {}.
  static Key key_after(const Key& before, std::span<const int32_t> tokens);

  // The page of this key, held once more; nothing when there is none.
  std::optional<int32_t> hold(const Key& key);
  // A page to be written, held once; nothing when all are held.
  std::optional<int32_t> take();
  // A page that is held and was written to its end: from now on it is found. That another page has the key is no harm.
  void keep(int32_t page, const Key& key);
  void let_go(int32_t page);

  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t held() const { return held_; }
  int64_t kept() const { return static_cast<int64_t>(by_key_.size()); }  // that may be found, held or not

 private:
  struct Page {
    int64_t holders = 0;
    std::optional<Key> key;
    std::list<int32_t>::iterator place = {};  // in idle_, while nobody holds it
  };
  std::vector<Page> pages_;
  std::map<Key, int32_t> by_key_;
  std::list<int32_t> idle_;  // held by nobody; the next to be given is in front
  int64_t held_ = 0;
};

}  // namespace holdfast::model
