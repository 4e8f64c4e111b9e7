// The folders of checkpoint objects that the service keeps: one for each job, below DATA_DIR/checkpoints.
//
// Promises: a job's folder is durable before the job is. It is made once, at that time. If it is missing later, its volume is
// not mounted, and nothing is written in its place.
// Thread: any; the functions block.
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
// A missing folder is the error kUnavailable, because the folder may come back.
storage::Result<std::unique_ptr<storage::ObjectStore>> open_objects_folder(const std::string& data_dir, const std::string& job);

// A folder whose job is not in the database. It is empty if the service was killed between making the folder and the job. It
// has objects if the database was restored from a copy that is older than the job.
struct StrayFolder {
  std::string job;
  bool empty = true;
};
std::vector<StrayFolder> stray_folders(const std::string& data_dir, const std::vector<std::string>& jobs);

// The job's checkpoints at steps that are not among `known`, from the manifests in its folder here or, if this machine sees
// it, in its shared folder. Another job may have had the same id before. So manifests with another spec are left out, and
// manifests written before the job was `born` (ms since 1970; clocks may differ by an hour). Manifests that cannot be read are
// left out, too: the reader that needs one will report it.
std::vector<CheckpointRecord> unknown_checkpoints(const std::string& data_dir, const std::string& job, const JobSpec& spec,
                                                  int64_t born, const std::vector<int64_t>& known);

// Which of the job's checkpoints have no manifest in its folder here: all of them where there is no folder.
std::vector<int64_t> absent_checkpoints(const std::string& data_dir, const std::string& job, const std::vector<int64_t>& steps);

// Removes unfinished objects, which puts leave when the service is killed. Call it before anybody can put: a put under way
// would fail.
void tidy_objects(const std::string& data_dir, const std::vector<std::string>& jobs);

}  // namespace holdfast::rendezvous
