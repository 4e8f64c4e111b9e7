#include "rendezvous/backup_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/object_folders.h"
#include "storage/checkpoint.h"

namespace holdfast::rendezvous {
namespace {

using storage::Error;
using storage::ObjectStore;
using storage::Result;

constexpr int kAttempts = 3;
constexpr int kThreads = 2;

Result<void> copy_object(ObjectStore& from, ObjectStore& to, const std::string& key) {
  const auto bytes = from.get(key);
  if (!bytes) return tl::unexpected(bytes.error());
  return to.put(key, *bytes);
}

// The shards first, so that a kill leaves no manifest without them. The bytes that it takes up.
Result<int64_t> copy_once(ObjectStore& from, ObjectStore& to, int64_t step) {
  const auto manifest = storage::read_manifest(from, step);
  if (!manifest) return tl::unexpected(manifest.error());
  for (const storage::ShardInfo& shard : manifest->shards) {
    if (const auto copied = copy_object(from, to, shard.key); !copied) return tl::unexpected(copied.error());
  }
  if (const auto copied = copy_object(from, to, storage::manifest_key(step)); !copied) return tl::unexpected(copied.error());
  const auto verified = storage::verify_checkpoint(to, step, kThreads);
  if (!verified) return tl::unexpected(verified.error());
  return verified->stored_bytes();
}

// Once more when it does not verify: a later generation may have written the same step anew meanwhile.
Result<int64_t> copy_checkpoint(ObjectStore& from, ObjectStore& to, int64_t step) {
  for (int attempt = 1;; ++attempt) {
    auto copied = copy_once(from, to, step);
    if (copied) return copied;
    if (const auto removed = storage::remove_checkpoint(to, step); !removed) return tl::unexpected(removed.error());
    const bool gone = storage::is_absent(from, storage::manifest_key(step));
    const auto code = copied.error().code;
    const bool may_help = code == Error::Code::kCorrupt || code == Error::Code::kNotFound;
    if (gone || !may_help || attempt == kAttempts) return copied;
  }
}

}  // namespace

std::vector<CopiedCheckpoint> copy_checkpoints(const std::string& from_data_dir, const std::string& to_data_dir,
                                               const std::string& job, std::vector<std::string>& notes) {
  std::vector<CopiedCheckpoint> all;
  const auto from = open_objects_folder(from_data_dir, job);
  const auto steps = from ? storage::list_checkpoints(**from) : tl::unexpected(from.error());
  if (!steps) {
    notes.push_back(fmt::format("the checkpoints of {} are not in it: {}", job, steps.error().message));
    return all;
  }
  const auto to = storage::open_directory_store(objects_folder(to_data_dir, job));
  const auto there = to ? storage::list_checkpoints(**to) : tl::unexpected(to.error());
  if (!there) {
    notes.push_back(fmt::format("the checkpoints of {} are not in it: {}", job, there.error().message));
    return all;
  }
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {  // the newest first: retention takes the oldest
    if (std::ranges::find(*there, *step) != there->end()) continue;
    const auto bytes = copy_checkpoint(**from, **to, *step);
    if (bytes) {
      all.push_back({job, *step, *bytes});
    } else if (!storage::is_absent(**from, storage::manifest_key(*step))) {
      notes.push_back(fmt::format("the checkpoint of {} at step {} is not in it: {}", job, *step, bytes.error().message));
    }
  }
  return all;
}

}  // namespace holdfast::rendezvous
