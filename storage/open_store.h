// From what a person writes (--checkpoint_store) to an object store.
//
//   ""                        objects kept by the service, under the job
//   "/shared/ckpt", "file:///shared/ckpt"   a folder that all workers share: a job's checkpoints are in <folder>/<job>
//   "s3://bucket/prefix?endpoint=…"         objects in S3 (places/place.h): a job's are below <prefix>/<job>/
// Refuses anything else (relative paths, which would be another folder on each worker) with what is supported.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/copies/copying.h"
#include "storage/object_store.h"

namespace holdfast::storage {

// Opens the store that the service keeps for a job (rendezvous/client/service_store.h makes one).
using OpenServiceStore = std::function<std::unique_ptr<ObjectStore>(const std::string& job)>;

struct OpenOptions {
  MissingFolder missing = MissingFolder::kMake;  // of a folder; readers say kFail
  OpenServiceStore service{};                    // for ""; without one that is refused
  // Folders that a store's (with a job: that job's) must be one of, or below, through ".." or symbolic links either; places in
  // S3 for stores in S3. None: it may be anywhere.
  std::vector<std::string> roots{};
  // Ends what is read of the store soon, with kUnavailable, once it is true; writes go on. Outlives the store. For "" it is the
  // service's opener that takes it.
  const std::atomic<bool>* stop = nullptr;
  // Of a call to a store in S3, its tries together.
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
  // A second place that has the same job's checkpoints; with kFail alone. The store is then both of them (join_places), or the
  // one that can be opened. `tell`: see there.
  std::string copy{};
  TellOfMending tell = nullptr;
};

// Whether a folder, or a place in S3, may be a store under these roots; the error names it and them.
Result<void> check_roots(const std::string& place, const std::vector<std::string>& roots);

// `job` may be "" for a folder that is itself a job's (--resume_from PATH, `holdfast ckpt ls PATH`).
Result<std::unique_ptr<ObjectStore>> open_store(const std::string& url_or_path, const std::string& job,
                                                const OpenOptions& options = {});

}  // namespace holdfast::storage
