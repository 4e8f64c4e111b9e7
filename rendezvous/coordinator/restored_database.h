// A database that was restored from an older copy while workers and checkpoints went on. Their knowledge is written into it.
//
// membership/restored.cpp decides for each job.
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
  // All arguments outlive this object.
  RestoredDatabase(Registry& registry, Journal& journal, Decisions& decisions)
      : registry_(registry), journal_(journal), decisions_(decisions) {}

  // Call it when the folder of a job that the database does not know is on disk: no new job gets this id.
  void reserve_id(const std::string& job);
  // Records an event: the folder has checkpoints of such a job.
  void report_stray_checkpoints(const std::string& job, const std::string& folder);
  // Writes checkpoints of a job into the database whose manifests are only on disk.
  enum class Adopt {
    kOfUnknownGenerations,  // only if one was written by a generation that the database does not know
    kAll,                   // the database was restored from a copy
  };
  void adopt_checkpoints(const std::string& job, const std::vector<CheckpointRecord>& found, Adopt which);
  // A data set of the job that was lacking has been pushed again: workers that were refused for want of it may try the job
  // anew.
  void data_is_back(const std::string& job);
  // Call it first when a worker's status has come. If the status names a generation that the database does not know, the job
  // takes in that generation, and the worker, too, if the database has it in another place.
  void notice_newer(Worker& worker);

 private:
  void note_unknown_job(const Worker& worker);

  Registry& registry_;
  Journal& journal_;
  Decisions& decisions_;
  std::set<std::string> unknown_jobs_;  // jobs that workers have named, and for which there is an event already
};

}  // namespace holdfast::rendezvous
