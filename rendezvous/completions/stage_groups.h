// The workers of a job that serves a divided model: which stage each of them is, and which write texts together.
//
// A model's layers are divided into stages, numbered from the one with the first layers; a worker is one stage. A group is a
// worker of each stage, and its last stage writes the texts, as a replica (replicas.h). Promises: after arrange(true) there are
// as many groups as there are workers for; a worker keeps its stage and its group for as long as that allows, and as nobody who
// could take its place waits while it cannot read its models, or while another cannot reach it. A worker that is to leave is in
// no group. Pure: no clock, no I/O. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/completions/replica_messages.h"

namespace holdfast::rendezvous {

class StageGroups {
 public:
  explicit StageGroups(int64_t stages) : stages_(stages) {}  // at least 2

  // A worker's report that waits: it is there. The place that it speaks of becomes its own: an earlier life of the service gave
  // it. A new incarnation is another worker.
  void hear(const std::string& worker, const ReplicaReport& report);
  void set_leaving(const std::string& worker, bool is_leaving);
  void forget(const std::string& worker);  // it is gone
  // `may_give_stages`: also to workers that have none, or another one. Not before those that have one were heard.
  void arrange(bool may_give_stages);

  std::vector<std::string> workers() const;
  const std::string& incarnation_of(const std::string& worker) const { return workers_.at(worker).last.incarnation; }
  const ReplicaReport& report_of(const std::string& worker) const { return workers_.at(worker).last; }
  bool is_last(const std::string& worker) const;
  // The models with which this worker, the last of a group, said to be connected to the others as they are now.
  std::vector<HeldModel> ready_in_group(const std::string& worker) const;
  // nullopt: it was not arranged yet.
  std::optional<StagePlace> place_of(const std::string& worker) const;
  // Whether there are groups, and in each of them a worker says that it cannot read this model.
  bool is_unreadable(const std::string& source) const;
  // The workers of the group whose last stage this is, from first to last; none where the group is not complete.
  std::vector<std::string> group_of(const std::string& worker) const;

 private:
  struct Worker {
    ReplicaReport last;
    bool is_leaving = false;
    int64_t stage = -1;                     // -1: none yet
    std::vector<std::string> earlier = {};  // of a last stage: the group's other workers, by stage; or none
  };
  void give_stages();
  void form_groups();
  bool is_whole(const Worker& last) const;
  static bool is_unreached(const Worker& worker, const Worker& by);
  bool is_of_use(const Worker& worker) const;   // it can read its models, and nobody says that it cannot be reached
  bool has_better(const Worker& worker) const;  // of its stage: one of use, in no group
  bool is_in_a_group(const std::string& worker) const;
  std::vector<int64_t> counts() const;     // of workers that stay, by stage
  std::string spare(int64_t stage) const;  // the best worker of it in no group; "": none

  const int64_t stages_;
  std::map<std::string, Worker> workers_;
};

}  // namespace holdfast::rendezvous
