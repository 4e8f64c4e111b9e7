// A database that was restored from an older copy, while workers and checkpoints went on: what they know is taken into it.
//
// membership/restored.cpp says what that means for one job.
// Thread: the owner.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/registry.h"

namespace holdfast::rendezvous {

class RestoredDatabase {
 public:
  // All outlive it.
  RestoredDatabase(Registry& registry, Journal& journal, Decisions& decisions)
      : registry_(registry), journal_(journal), decisions_(decisions) {}

  // A folder of a job that the database does not know is on disk: no new job may get this id.
  void reserve_id(const std::string& job);
  // Tells people that the folder holds checkpoints of such a job.
  void report_stray_checkpoints(const std::string& job, const std::string& folder);
  // Takes into the database the checkpoints of a job whose manifests are on disk alone.
  enum class Adopt {
    kOfUnknownGenerations,  // only if one was written by a generation that the database does not know
    kAll,                   // the database was restored from a copy
  };
  void adopt_checkpoints(const std::string& job, const std::vector<CheckpointRecord>& found, Adopt which);
  // A worker's status came: if it speaks of a generation that the database does not know, the job takes it in, and a worker
  // of it that the database has elsewhere. To be called before anything else is made of the status.
  void notice_newer(Worker& worker);

 private:
  void note_unknown_job(const Worker& worker);

  Registry& registry_;
  Journal& journal_;
  Decisions& decisions_;
  std::set<std::string> unknown_jobs_;  // jobs that workers spoke of and people were told of
};

}  // namespace holdfast::rendezvous
