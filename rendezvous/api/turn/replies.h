// The answers of one turn, kept until the turn has committed. Persist first, then reply.
//
// Thread: the owner's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/http/server.h"

namespace holdfast::rendezvous {

class Replies {
 public:
  using Counts = std::map<std::pair<std::string, int>, int64_t>;  // by method and status

  void add(const Reply& to, HttpResponse response) { waiting_.emplace_back(to, std::move(response)); }
  // One of them tells a person what is in memory. Workers know their leader's term, and refuse the answer of one before it;
  // people ask whichever service they reach.
  void tell_person() { tells_person_ = true; }
  bool tells_person() const { return tells_person_; }
  void send();                                     // after the commit
  void send_instead(const HttpResponse& failure);  // the commit failed: everybody gets this answer
  void count(const std::string& method, int status) { ++counts_[{method, status}]; }
  const Counts& counts() const { return counts_; }  // of requests that a handler answered, since the service began

 private:
  std::vector<std::pair<Reply, HttpResponse>> waiting_;
  bool tells_person_ = false;
  Counts counts_;
};

}  // namespace holdfast::rendezvous
