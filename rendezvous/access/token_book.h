// The book of bearer tokens, each with a role. A token's secret is told once, when it is made; the book keeps only its digest.
//
// Tokens are found by the digest, so the time of a comparison does not tell how much of a secret was right. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/rows.h"

namespace holdfast::rendezvous {

// SHA-256 in hex.
std::string secret_digest(std::string_view secret);

class TokenBook {
 public:
  void add(TokenRow row);
  // False: there is no such id, or the token comes from a file and cannot be removed.
  bool remove(const std::string& id);
  // The token with this secret, unless it has expired. Notes the time of its use.
  std::optional<TokenRow> find(std::string_view secret, int64_t wall_ms);
  std::vector<TokenRow> list() const;  // by id
  std::set<std::string> valid_ids(int64_t wall_ms) const;
  // The tokens that were used since the last call, to be saved: the time of last use is not written down at each use.
  std::vector<TokenRow> take_used();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, TokenRow> by_digest_;
  std::map<std::string, std::string> used_;  // id -> digest
};

}  // namespace holdfast::rendezvous
