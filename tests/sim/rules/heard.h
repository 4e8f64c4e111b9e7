// The newest generation of each job that workers have spoken of to the service, since it has its database.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace holdfast::sim {

class HeardGenerations {
 public:
  // In the turn under way. `late`: a generation had formed in this turn before; the word came too late for that one.
  void said(const std::string& job, int64_t generation, bool late) {
    int64_t& newest = (late ? late_ : soon_)[job];
    newest = std::max(newest, generation);
  }
  void turn_lost() { soon_ = late_ = {}; }
  void database_restored() { heard_ = soon_ = late_ = {}; }

  // The turn is committed: what was said in time counts when its generations are judged, and the rest after that.
  void before_judging() { take(std::exchange(soon_, {})); }
  void after_judging() { take(std::exchange(late_, {})); }

  int64_t newest(const std::string& job) const {
    const auto found = heard_.find(job);
    return found == heard_.end() ? 0 : found->second;
  }

 private:
  using Generations = std::map<std::string, int64_t>;
  void take(const Generations& said) {
    for (const auto& [job, generation] : said) heard_[job] = std::max(heard_[job], generation);
  }

  Generations heard_, soon_, late_;
};

}  // namespace holdfast::sim
