// Requests for a directive that wait until there is another one, by worker.
//
// Promises: what is done for one worker costs the same however many others wait; a poll is answered once. A worker holds one
// at a time: with a new one the older is given up, and answered in the same turn.
// Thread: one, the owner.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/http_server.h"
#include "rendezvous/membership_state.h"

namespace holdfast::rendezvous {

class LongPolls {
 public:
  struct Poll {
    Reply reply;
    std::string worker, incarnation, have;  // the tag of the directive that it has
    Millis deadline_ms = 0;
  };
  // True: the poll is answered, and goes.
  using Answer = std::function<bool(const Poll&)>;

  void add(Poll poll, Millis now);
  // Shows `answer` the polls of the workers `touched`, those that came since the last call, and those whose time is over.
  void look(const std::set<std::string>& touched, Millis now, const Answer& answer);
  void close(const Answer& answer);  // shows it all of them, and forgets them

 private:
  void show(const std::string& worker, const Answer& answer);

  std::map<std::string, std::vector<Poll>> by_worker_;
  std::multiset<std::pair<Millis, std::string>> deadlines_;  // one for each poll
  std::set<std::string> fresh_;
};

}  // namespace holdfast::rendezvous
