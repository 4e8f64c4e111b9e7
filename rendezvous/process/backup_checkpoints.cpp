#include "rendezvous/process/backup_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "rendezvous/data_dir/object_folders.h"
#include "storage/checkpoint.h"

namespace holdfast::rendezvous {
namespace {

using storage::Error;
using storage::ObjectStore;
using storage::Result;

constexpr int kAttempts = 3;
constexpr int kThreads = 2;

// The side that is at fault. kSource: it has no whole checkpoint. kEither: the source is whole and the copy is not, perhaps
// because the source was written again during the copy.
enum class Blame : uint8_t { kSource, kEither, kTarget };
struct CopyFailure {
  Error error;
  Blame blame = Blame::kTarget;
};
template <typename T>
using Copied = tl::expected<T, CopyFailure>;

bool is_damage(const Error& error) {
  return error.code == Error::Code::kCorrupt || error.code == Error::Code::kNotFound;
}
tl::unexpected<CopyFailure> cannot_read(const Error& error) {
  return tl::unexpected(CopyFailure{error, is_damage(error) ? Blame::kSource : Blame::kTarget});
}
tl::unexpected<CopyFailure> cannot_write(const Error& error) {
  return tl::unexpected(CopyFailure{error, Blame::kTarget});
}

Copied<void> copy_object(ObjectStore& from, ObjectStore& to, const std::string& key) {
  const auto bytes = from.get(key);
  if (!bytes) return cannot_read(bytes.error());
  if (const auto put = to.put(key, *bytes); !put) return cannot_write(put.error());
  return {};
}

// Returns the bytes of the copy. Shards are copied before the manifest, so that a kill leaves no manifest without its shards.
Copied<int64_t> copy_once(ObjectStore& from, ObjectStore& to, int64_t step) {
  const auto manifest = storage::read_manifest(from, step);
  if (!manifest) return cannot_read(manifest.error());
  for (const storage::ShardInfo& shard : manifest->shards) {
    if (const auto copied = copy_object(from, to, shard.key); !copied) return tl::unexpected(copied.error());
  }
  if (const auto copied = copy_object(from, to, storage::manifest_key(step)); !copied) return tl::unexpected(copied.error());
  const auto verified = storage::verify_checkpoint(to, step, kThreads);
  if (verified) return verified->stored_bytes();
  if (!is_damage(verified.error())) return cannot_write(verified.error());
  const auto original = storage::verify_checkpoint(from, step, kThreads);
  if (!original) return cannot_read(original.error());
  return tl::unexpected(CopyFailure{verified.error(), Blame::kEither});
}

// Tries again when the copy does not verify: a later generation may have written the same step again during the copy.
Copied<int64_t> copy_checkpoint(ObjectStore& from, ObjectStore& to, int64_t step) {
  for (int attempt = 1;; ++attempt) {
    auto copied = copy_once(from, to, step);
    if (copied) return copied;
    const auto removed = storage::remove_checkpoint(to, step);
    if (copied.error().blame == Blame::kTarget) return copied;
    if (!removed) return cannot_write(removed.error());
    if (attempt == kAttempts || storage::is_absent(from, storage::manifest_key(step))) return copied;
  }
}

}  // namespace

tl::expected<CheckpointCopies, std::string> copy_checkpoints(const std::string& from_data_dir, const std::string& to_data_dir,
                                                             const std::string& job) {
  const auto fail = [&](const std::string& why) {
    return tl::unexpected(fmt::format("cannot copy the checkpoints of {} to {}: {}", job, to_data_dir, why));
  };
  const auto from = open_objects_folder(from_data_dir, job);
  const auto steps = from ? storage::list_checkpoints(**from) : tl::unexpected(from.error());
  if (!steps) return fail(steps.error().message);
  const auto to = storage::open_directory_store(objects_folder(to_data_dir, job));
  const auto there = to ? storage::list_checkpoints(**to) : tl::unexpected(to.error());
  if (!there) return fail(there.error().message);
  CheckpointCopies copies;
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {  // the newest first: retention removes the oldest
    if (std::ranges::find(*there, *step) != there->end()) continue;
    const auto bytes = copy_checkpoint(**from, **to, *step);
    if (bytes) {
      copies.copied.push_back({job, *step, *bytes});
    } else if (bytes.error().blame != Blame::kTarget && storage::is_absent(**from, storage::manifest_key(*step))) {
      continue;  // retention has removed it
    } else if (bytes.error().blame != Blame::kSource) {
      return fail(bytes.error().error.message);
    } else {
      copies.damaged.push_back({job, *step, bytes.error().error.message});
    }
  }
  return copies;
}

}  // namespace holdfast::rendezvous
