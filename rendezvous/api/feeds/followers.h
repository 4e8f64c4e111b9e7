// The readers who follow a feed as server-sent events.
//
// Promises: the store is the one source, so a reader who comes back with Last-Event-ID misses nothing and sees nothing twice.
// Followers at the same place of the same feed share what is read for them. A stream ends when the job has ended and everything
// was sent, or when its token is no longer valid. A slow reader is sent no more until it has read what it was sent: it loses
// nothing and costs nobody else anything. A reader that stops reading altogether is cut off by its connection, and goes on from
// where it was when it comes back.
// Thread: the owner's.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/api/feeds/feed.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class Followers {
 public:
  explicit Followers(Turn& turn) : turn_(turn) {}

  void follow(const Call& call, FeedPlace place);  // answers the call with a stream
  void feed();                                     // after the commit: sends what is new
  bool any_behind() const { return behind_; }      // feed() has more to send at once
  size_t count() const { return followers_.size(); }
  // Ends the streams whose token is not one of these (ids).
  void end_all_but(const std::set<std::string>& valid_tokens);
  void close();  // ends all

 private:
  struct Follower {
    std::shared_ptr<EventStream> stream;
    std::string token;  // its id
    FeedPlace place;
    Millis written_ms = 0, ended_ms = -1;
    bool behind = true;
    bool full = false;  // it has not read what it was sent
  };
  struct Chunk {  // the text for all followers at one place
    std::string text;
    int64_t read_to = 0;
    bool more = false;
  };
  Chunk make_chunk(const FeedPlace& place, int64_t& rows_left);
  bool go_on(Follower& follower);

  Turn& turn_;
  std::vector<Follower> followers_;
  int64_t fed_writes_ = -1;  // Coordinator::writes() at the last feed()
  Millis fed_ms_ = -1;
  bool behind_ = false;
};

}  // namespace holdfast::rendezvous
