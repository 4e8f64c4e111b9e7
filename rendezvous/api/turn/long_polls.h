// Long-polls: requests for a directive, each waiting until its worker has another one.
//
// Promises: the cost for one worker does not depend on how many others wait. A poll is answered once. A worker holds one poll
// at a time: when a new one comes, the older one is answered in the same turn. Thread: one, the owner.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/http/server.h"
#include "rendezvous/membership/state.h"

namespace holdfast::rendezvous {

class LongPolls {
 public:
  struct Poll {
    Reply reply;
    std::string worker, incarnation, have;  // have: the tag of the directive that the worker has
    Millis deadline_ms = 0;
  };
  // True: the poll is answered, and is removed.
  using Answer = std::function<bool(const Poll&)>;

  void add(Poll poll, Millis now);
  // Calls `answer` for the polls of the workers `touched`, for new polls, and for polls whose time is over.
  void look(const std::set<std::string>& touched, Millis now, const Answer& answer);
  void close(const Answer& answer);  // calls `answer` for all polls, and removes them

 private:
  void show(const std::string& worker, const Answer& answer);

  std::map<std::string, std::vector<Poll>> by_worker_;
  std::multiset<std::pair<Millis, std::string>> deadlines_;  // one for each poll
  std::set<std::string> fresh_;
};

}  // namespace holdfast::rendezvous
