// The rules of divided states: what leavers have is not lost when they leave in order, and nothing is while all who had it
// live.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "rendezvous/protocol/messages.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {

class DividedStates {
 public:
  // A rank of this generation has stopped in order: `stays` are the members' incarnations that are to be in the next one.
  void handed_over(const rendezvous::Directive& join, const std::set<std::string>& stays) {
    Ended& ended = ended_[{join.job, join.generation, join.secret}];
    ended.stays = stays;
    ++ended.ranks;
  }

  // Nobody of this generation has some part. That is as it may be where owners have died; not so when all ranks of the one
  // before had handed over, and those that stayed are here. After a loss, those who had parts of it have let go of them.
  void lost(const rendezvous::Directive& join) {
    if (const auto last = last_.find(join.job); last != last_.end() && are_here(last->second.members, join))
      broken("generation {} of {} lost a part of the state, and all members of generation {} are here", join.generation,
             join.job, last->second.generation);
    last_.erase(join.job);
    for (const auto& [generation, ended] : ended_) {
      const auto& [job, number, _] = generation;
      if (job != join.job || number != join.generation - 1 || ended.ranks < ended.of) continue;
      if (are_here(ended.stays, join))
        broken("generation {} of {} lost a part of the state, and nobody had left the one before but in order", join.generation,
               job);
    }
  }

  // A process drops its part, because the job gave it away or goes on from a checkpoint. Nobody may have another copy, where
  // redundancy was down to one and a fault came between the job's wish to be smaller and the hand-over.
  void dropped(const std::string& job, const std::string& incarnation) {
    if (const auto last = last_.find(job); last != last_.end() && last->second.members.contains(incarnation)) last_.erase(last);
  }

  void begins(const rendezvous::Directive& join) {
    ended_[{join.job, join.generation, join.secret}].of = join.members.size();
    Last& last = last_[join.job];
    if (join.generation <= last.generation) return;
    last = {join.generation, {}};
    for (const auto& member : join.members) last.members.insert(member.incarnation);
  }

 private:
  static bool are_here(const std::set<std::string>& incarnations, const rendezvous::Directive& join) {
    return std::ranges::all_of(incarnations, [&](const std::string& incarnation) {
      return std::ranges::find(join.members, incarnation, &rendezvous::Member::incarnation) != join.members.end();
    });
  }

  struct Last {
    int64_t generation = -1;
    std::set<std::string> members;  // their incarnations
  };
  std::map<std::string, Last> last_;  // by job: its last generation that began
  struct Ended {
    std::set<std::string> stays;
    size_t ranks = 0, of = 0;  // that have stopped in order, of so many
  };
  std::map<std::tuple<std::string, int64_t, std::string>, Ended> ended_;  // by job, generation, secret
};

}  // namespace holdfast::sim
