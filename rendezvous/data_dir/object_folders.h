// Where the service keeps checkpoint objects: one folder per job, below DATA_DIR/checkpoints.
//
// Promises: a job's folder is durable before the job is, and is made then and never again: one that is missing later is a
// volume that has gone, and nothing is written beside it.
// Blocks; any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/protocol/messages.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

std::string objects_folder(const std::string& data_dir, const std::string& job);

storage::Result<void> make_objects_folder(const std::string& data_dir, const std::string& job);
// A folder that is missing is kUnavailable: it may be back later.
storage::Result<std::unique_ptr<storage::ObjectStore>> open_objects_folder(const std::string& data_dir, const std::string& job);

// Folders of jobs that are not among `jobs`: left by a kill between folder and job (then empty), or the database was restored
// from a copy that is older than they are.
struct StrayFolder {
  std::string job;
  bool empty = true;
};
std::vector<StrayFolder> stray_folders(const std::string& data_dir, const std::vector<std::string>& jobs);

// Manifests of the job, of steps that are not among `known`: in its folder here or, where this machine sees it, in the shared
// one that it writes to. Another job may have had its id before: those of another spec, or written before this one was `born`
// (ms since 1970; clocks may differ by an hour), are passed over, and so is what cannot be read: whoever needs it will say so.
std::vector<CheckpointRecord> unknown_checkpoints(const std::string& data_dir, const std::string& job, const JobSpec& spec,
                                                  int64_t born, const std::vector<int64_t>& known);

// Removes what puts left unfinished when the service was killed. Before anybody can put: a put under way would fail.
void tidy_objects(const std::string& data_dir, const std::vector<std::string>& jobs);

}  // namespace holdfast::rendezvous
