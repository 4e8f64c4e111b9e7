// The profiles of running jobs: who is to record which steps, and what each rank has brought.
//
// A profile is of one generation. It is kept in memory alone and touches no decision about jobs: after a restart of the service
// there is none.
// Promises: pure; time comes in as an argument. Every profile ends. When all ranks have brought their parts it is complete; a
// rank whose life ended is left out with the reason, and so are all that are not whole when nothing has come of any rank for
// kPatienceMs, counted from the last step or the generation's end. Bounds: kProfilesMax profiles, one for each job, and
// kSpansMax spans in each, beside as many steps and phases. Refuses: a profile of a job that does not train, or while one is
// recorded; parts of other profiles, generations, incarnations. Thread: one, the owner.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/profile/merged.h"
#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

struct Profile {
  enum class State : uint8_t { kRecording, kMerging, kDone, kFailed };
  struct Rank {
    Member member;
    std::vector<ProfilePart> pieces;
    int64_t spans = 0;
    bool whole = false;   // all pieces came
    std::string missing;  // why none is waited for; "": it is, or it came
  };

  std::string id, job;
  int64_t generation = 0;
  ProfileOrder order;
  State state = State::kRecording;
  std::string reason;  // why it failed
  std::vector<Rank> ranks;
  std::string over;                     // why nobody records any more; "": they do
  int64_t pieces = 0, pieces_seen = 0;  // that came; that had come at the last look
  std::optional<int64_t> waits_until;   // for pieces, once nobody records: ms of a steady clock
  bool handed_over = false;             // the parts are with whoever merges them
  // Once merged; without spans where it failed.
  std::shared_ptr<const MergedProfile> merged;
};
const char* profile_state_name(Profile::State state);

// A job as it is now.
struct ProfiledJob {
  std::string id;
  std::string state;    // in words
  bool trains = false;  // a generation of it does
  int64_t generation = 0;
  std::vector<Member> members;
  int64_t committed_step = 0, total_steps = 0;  // 0: not known
  double step_s = 0;                            // how long a step takes; 0: not known
};

struct ProfileRefusal {
  enum class Kind : uint8_t { kWrongState, kStale, kInvalid } kind;
  std::string code, detail;
};

class ProfileBook {
 public:
  static constexpr size_t kProfilesMax = 4;
  static constexpr int64_t kSpansMax = 300'000, kSpansOfRankMax = 100'000;
  static constexpr int64_t kPatienceMs = 15'000;
  template <typename T>
  using Outcome = tl::expected<T, ProfileRefusal>;

  // Of the job's next `steps` steps, or as many as are left of it. `wall_ms` makes its id another one than in earlier lives.
  Outcome<const Profile*> begin(const ProfiledJob& job, int64_t steps, int64_t wall_ms);
  const Profile* find(const std::string& job) const;  // nullptr: there is none
  // A piece that came before changes nothing.
  Outcome<void> take_part(const std::string& job, ProfilePart part);
  // The order for the members of this generation of the job, while it is recorded.
  std::optional<ProfileOrder> order_for(const std::string& job, int64_t generation) const;

  std::vector<std::string> recording() const;  // the jobs
  // Looks whether anybody is still waited for. True: nobody is, and the members have no order any more.
  bool look(const ProfiledJob& job, int64_t now_ms, const std::function<bool(const Member&)>& lives);

  // The profiles whose parts are to be merged, each once, and their parts.
  struct ToMerge {
    std::string job, id;
    std::vector<RankParts> parts;
  };
  std::vector<ToMerge> take_complete();
  void merged(const std::string& job, const std::string& id, std::shared_ptr<const MergedProfile> result);

 private:
  Outcome<void> may_begin(const ProfiledJob& job, int64_t steps, int64_t from) const;
  bool make_room(const std::string& job);

  std::map<std::string, Profile> by_job_;
  int64_t begun_ = 0;
};

}  // namespace holdfast::rendezvous
