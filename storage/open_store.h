// From what a person writes (--checkpoint_store) to an object store.
//
//   ""                        objects kept by the service, under the job
//   "/shared/ckpt", "file:///shared/ckpt"   a folder that all workers share: a job's checkpoints are in <folder>/<job>
// Refuses anything else (s3://…, relative paths, which would be another folder on each worker) with what is supported.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace holdfast::storage {

struct OpenOptions {
  MissingFolder missing = MissingFolder::kMake;  // of a folder; readers say kFail
  std::optional<WorkerIdentity> identity{};      // of the worker that opens it, for the service
  // Folders that a store's (with a job: that job's) must be one of, or below, through ".." or symbolic links either; none: it
  // may be anywhere.
  std::vector<std::string> roots{};
};

// Whether a folder may be a store under these roots; the error names it and them.
Result<void> check_roots(const std::string& folder, const std::vector<std::string>& roots);

// `job` may be "" for a folder that is itself a job's (--resume_from PATH, `holdfast ckpt ls PATH`).
Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const std::string& server_url, const std::string& token,
                                                const OpenOptions& options = {});

}  // namespace holdfast::storage
