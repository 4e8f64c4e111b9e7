// Routes of tokens: make, list, revoke; and whoami.
//
// Promises: a token that was revoked or has expired ends the streams that were opened with it. The time of a token's last use
// is written down once a minute, not at each use. Thread: the owner's; book() from any.
#pragma once

#include <string>

#include "rendezvous/access/token_book.h"
#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class TokenDesk {
 public:
  // Loads the tokens that the store has, and adds the two of the data directory's files.
  TokenDesk(Turn& turn, Followers& followers, const std::string& admin_token, const std::string& worker_token);

  TokenBook& book() { return book_; }

  void post_token(Call& call);
  void get_tokens(Call& call);
  void delete_token(Call& call);
  static void get_whoami(Call& call);

  // To be called at each tick: saves when tokens were used, removes old ones, ends streams whose token is no longer valid.
  void tend();

 private:
  void end_streams_without_token();

  Turn& turn_;
  Followers& followers_;
  TokenBook book_;
  int64_t last_token_ = 0;  // the number in the newest id
  Millis used_saved_ms_ = 0, streams_checked_ms_ = 0;
};

}  // namespace holdfast::rendezvous
