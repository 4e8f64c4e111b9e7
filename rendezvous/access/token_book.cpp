#include "rendezvous/access/token_book.h"

#include <algorithm>
#include <span>

#include "rendezvous/text/natural_order.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::rendezvous {

std::string secret_digest(std::string_view secret) {
  return sha256_hex(std::as_bytes(std::span(secret)));
}

void TokenBook::add(TokenRow row) {
  const std::lock_guard lock(mutex_);
  by_digest_[row.digest] = std::move(row);
}

bool TokenBook::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(by_digest_, [&](const auto& known) { return known.second.id == id && !known.second.of_file; }) > 0;
}

std::optional<TokenRow> TokenBook::find(std::string_view secret, int64_t wall_ms) {
  const std::string digest = secret_digest(secret);
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return std::nullopt;
  TokenRow& token = found->second;
  if (token.expires_ms != 0 && token.expires_ms <= wall_ms) return std::nullopt;
  token.used_ms = wall_ms;
  if (!token.of_file) used_[token.id] = digest;
  return token;
}

std::vector<TokenRow> TokenBook::list() const {
  std::vector<TokenRow> rows;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [digest, row] : by_digest_) rows.push_back(row);
  }
  std::ranges::sort(rows, [](const TokenRow& a, const TokenRow& b) { return natural_less(a.id, b.id); });
  return rows;
}

std::set<std::string> TokenBook::valid_ids(int64_t wall_ms) const {
  const std::lock_guard lock(mutex_);
  std::set<std::string> ids;
  for (const auto& [digest, row] : by_digest_) {
    if (row.expires_ms == 0 || row.expires_ms > wall_ms) ids.insert(row.id);
  }
  return ids;
}

std::vector<TokenRow> TokenBook::take_used() {
  const std::lock_guard lock(mutex_);
  std::vector<TokenRow> rows;
  for (const auto& [id, digest] : used_) {
    if (const auto found = by_digest_.find(digest); found != by_digest_.end()) rows.push_back(found->second);
  }
  used_.clear();
  return rows;
}

}  // namespace holdfast::rendezvous
