// Routes of profiles: begin one, take a worker's part, show it, hand out the trace.
//
// Parts are merged, and traces written, on threads of their own, for that may take a second. Nothing of it is durable, so
// those answers need no commit.
// Thread: the owner's.
#pragma once

#include "rendezvous/api/turn/call.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/http/work_pool.h"

namespace holdfast::rendezvous {

class ProfilesApi {
 public:
  explicit ProfilesApi(Turn& turn);

  void post_profile(Call& call);
  void get_profile(Call& call);
  void get_trace(Call& call);
  void post_part(Call& call);
  void merge_complete();  // once in a turn
  // Ends what was begun, and takes no more.
  void finish() {
    merges_.finish();
    traces_.finish();
  }

 private:
  const Profile* need_profile(const Call& call);
  void note_merged(const std::string& job, const std::string& id, std::shared_ptr<const MergedProfile> merged);

  Turn& turn_;
  WorkPool merges_, traces_;  // last: their work uses the others. Traces that many ask for do not make a merge wait
};

}  // namespace holdfast::rendezvous
