// Routes of profiles: begin one, take a worker's part, show it, hand out the trace.
//
// Parts are merged, and traces written, on a thread of their own, for that may take a second. Nothing of it is durable, so
// those answers need no commit.
// Thread: the owner's.
#pragma once

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/api/turn/work_pool.h"

namespace holdfast::rendezvous {

class ProfilesApi {
 public:
  explicit ProfilesApi(Turn& turn);

  void post_profile(Call& call);
  void get_profile(Call& call);
  void get_trace(Call& call);
  void post_part(Call& call);
  void merge_complete();             // once in a turn
  void finish() { pool_.finish(); }  // writes what was asked for, and takes no more

 private:
  const Profile* need_profile(const Call& call);
  void note_merged(const std::string& job, const std::string& id, std::shared_ptr<const MergedProfile> merged);

  Turn& turn_;
  WorkPool pool_;  // last: its work uses the others
};

}  // namespace holdfast::rendezvous
