// Who may do what: bearer tokens, each with a role. The secret itself is told once, when it is made; what is kept is its
// digest.
//
// Thread: any. What is asked for is found by the digest, so no comparison tells how much of a secret was right.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::rendezvous {

//   read    looks at everything but secrets
//   submit  and submits jobs, and steers them
//   admin   and drains workers, makes tokens and webhooks
//   worker  is apart: what a worker needs, and nothing of what people do
enum class Role : uint8_t { kRead, kSubmit, kAdmin, kWorker };
const char* role_name(Role role);
std::optional<Role> role_from(std::string_view name);

struct TokenRow {
  std::string id;  // "t3"
  std::string name;
  Role role = Role::kRead;
  std::string digest;                                   // SHA-256 of the secret, hex
  int64_t created_ms = 0, expires_ms = 0, used_ms = 0;  // wall time; 0: never
  bool of_file = false;                                 // admin.token or worker.token of the data directory
};

// SHA-256 in hex.
std::string secret_digest(std::string_view secret);

class TokenBook {
 public:
  void add(TokenRow row);
  // False: there is none of that id that could be removed (those of files cannot).
  bool remove(const std::string& id);
  // The token with this secret, unless it has expired. Notes that it was used.
  std::optional<TokenRow> find(std::string_view secret, int64_t wall_ms);
  std::vector<TokenRow> list() const;  // by id
  std::set<std::string> valid_ids(int64_t wall_ms) const;
  // Those that were used since the last call: when they were last is kept, but not each time.
  std::vector<TokenRow> take_used();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, TokenRow> by_digest_;
  std::map<std::string, std::string> used_;  // id -> digest
};

}  // namespace holdfast::rendezvous
