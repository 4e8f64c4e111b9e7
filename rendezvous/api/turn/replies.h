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
  void send();                                     // after the commit
  void send_instead(const HttpResponse& failure);  // the commit failed: everybody gets this answer
  void count(const std::string& method, int status) { ++counts_[{method, status}]; }
  const Counts& counts() const { return counts_; }  // of requests that a handler answered, since the service began

 private:
  std::vector<std::pair<Reply, HttpResponse>> waiting_;
  Counts counts_;
};

}  // namespace holdfast::rendezvous
