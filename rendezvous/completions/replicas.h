// The workers of one job that serves, as the replicas that they make: each by itself or, of a model that is divided, those of a
// group together; and the texts that they write.
//
// Promises: ReplicaPool's and StageGroups'. A group is a replica while its last stage is connected to the others as they
// are now. A model that requests are answered with is wanted until half of the replicas have something newer; while they come
// to have that, and while texts go on with something older, still newer ones wait: so checkpoints that follow each other faster
// than they are read are not chased for ever, and a replica does not hold a third, unless one is removed. Pure: no clock, no
// I/O. Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/completions/replica_messages.h"
#include "rendezvous/completions/replica_pool.h"
#include "rendezvous/completions/stage_groups.h"

namespace holdfast::rendezvous {

class Replicas {
 public:
  using Millis = ReplicaPool::Millis;

  explicit Replicas(int64_t stages) : groups_(stages > 1 ? std::optional<StageGroups>(stages) : std::nullopt) {}

  // A worker's report that waits.
  void hear(const std::string& worker, const ReplicaReport& report);
  enum class Presence { kStays, kLeaves, kGone };
  using PresenceOf = std::function<Presence(const std::string& worker, const std::string& incarnation)>;
  // `newest`: the source that requests are to be answered with. `is_gone`: nobody can read the one aimed at any more.
  void aim(Millis now, const std::string& newest, bool is_gone);
  const std::string& aimed_at() const { return aim_; }  // "": nothing yet
  // Gives out texts among those who are there. `may_give_stages`: all were heard that have stages already.
  void tend(Millis now, const PresenceOf& presence_of, bool may_give_stages);

  std::vector<std::string> workers() const { return groups_ ? groups_->workers() : pool_.replicas(); }
  // A whole model's worker; of a divided one, those of the group whose last stage this is. None while it is no replica.
  std::vector<std::string> group_of(const std::string& worker) const;
  bool is_divided() const { return groups_.has_value(); }

  // The sources of models that workers are to have: the one aimed at, what requests are answered with until half have that, and
  // what texts under way were begun with.
  std::vector<std::string> wanted() const;
  // The model that requests are answered with: the one aimed at where half have it, or else the one that was reached before;
  // null when there is none.
  const HeldModel* answering() const;
  // Whether a worker is to hear of what it is to have, for it knows something else.
  bool is_news(const std::string& worker, const std::vector<std::string>& wanted) const;
  // The answer to a report that waits, without the service's life and tokenizer.
  ReplicaOrders orders_for(const std::string& worker, int64_t have, std::vector<std::string> wanted);

  ReplicaPool& texts() { return pool_; }
  const ReplicaPool& texts() const { return pool_; }

 private:
  static constexpr Millis kPatienceMs = 60'000, kPatienceMaxMs = 3'600'000, kSlowMaxMs = 600'000;

  struct Known {
    std::vector<std::string> wanted;
    std::optional<StagePlace> place;
    bool is_fresh = false;              // since the pool heard of it
    std::vector<HeldModel> ready = {};  // as the pool knows it, of a last stage
  };
  void note_reached(Millis now);
  bool may_go_on(Millis now) const;  // to a newer one, when this one was reached
  bool is_hopeless() const;          // too few are there who could come to have what is aimed at
  int64_t unable() const;            // replicas that say so
  void look_who_is_there(const PresenceOf& presence_of);
  void tell_of_groups();

  ReplicaPool pool_;
  std::optional<StageGroups> groups_;   // of a model that is divided
  std::map<std::string, Known> known_;  // by worker
  std::string aim_, reached_;           // sources: what workers are to come to have, and what half of them had last
  Millis aimed_ms_ = 0, reached_ms_ = 0;
  Millis patience_ms_ = kPatienceMs;  // with an aim, where there is a newer one
};

}  // namespace holdfast::rendezvous
