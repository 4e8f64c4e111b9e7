// Routes of lists that grow: events, logs and metrics, in pages or followed as a stream (followers.h); curves, checkpoints, the
// ledger.
//
// Thread: the owner's.
#pragma once

#include "rendezvous/api/feeds/feed.h"
#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"

namespace holdfast::rendezvous {

class ListsApi {
 public:
  ListsApi(Turn& turn, Followers& followers) : state_(turn.state), followers_(followers) {}

  void get_events(Call& call);
  void get_all_events(Call& call);
  void get_logs(Call& call);
  void get_metrics(Call& call);
  void get_checkpoints(Call& call);
  void get_ledger(Call& call);

 private:
  void list_or_follow(Call& call, Feed feed);
  void show_curve(Call& call);

  Coordinator& state_;
  Followers& followers_;
};

}  // namespace holdfast::rendezvous
