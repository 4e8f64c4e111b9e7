// Checkpoints: a state at a step, as shards and a manifest in an object store. storage/FORMAT.md states every byte.
//
// Promises: a checkpoint is there exactly when its manifest is; the manifest is put after every shard is durable; every
// byte is verified on read (checksum per shard, hash of the whole state); what does not verify is named and not loaded.
// Refuses: spans that do not match the manifest in name, type or shape ("a checkpoint of another model").
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace holdfast::storage {

// A tensor to be written, or to be read into. The memory is the caller's.
struct ConstTensor {
  std::string name;
  std::string dtype;  // "float32" | "bfloat16" | "float16" | "int32": its width is what the byte planes need
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
struct MutableTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<std::byte> bytes;
};

// The state's hash (state_hash.h), as TrainState::hash() says it of the same bytes.
std::string state_hash(std::span<const ConstTensor> tensors);

// Pieces of the state as its hash cuts it (state_hash.h), counted through all tensors.
struct PieceRun {
  int64_t first = 0, count = 0;
};

struct ShardInfo {
  std::string key;               // object name
  int64_t raw_bytes = 0;         // bytes once unpacked
  int64_t stored_bytes = 0;      // the object's size
  std::string checksum;          // XXH3-128 of the stored object, hex
  std::vector<PieceRun> pieces;  // its contents, ascending; none: the bytes that follow those of the shard before
};

struct TensorInfo {
  std::string name, dtype;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

struct Manifest {
  static constexpr int kFormatVersion = 2;  // the newest that is read, and what is written
  static constexpr int kHashOfPieces = 2;   // from this version on `state_hash` is made of pieces' digests
  int format_version = kFormatVersion;
  std::string written_by;  // "holdfast 0.1.0"
  std::string job;
  int64_t step = 0;
  int64_t generation = 0;  // of the writer
  std::string state_hash;  // of all tensors' bytes in order (state_hash.h: in format version 1 its version 1), hex
  std::string created_at;  // UTC, RFC 3339; filled in on writing when it is empty
  nlohmann::json spec;     // the job spec it was trained under, for people, `sample` and `--resume_from`
  nlohmann::json data;     // the run's data: {"train": digest, "path": …}
  std::vector<TensorInfo> tensors;
  std::vector<ShardInfo> shards;  // the tensors' bytes, end to end, cut into shards; or each the pieces that it names

  int64_t raw_bytes() const;
  int64_t stored_bytes() const;
};

// Objects of the checkpoint at `step` begin with this: "step-0000000060/". Its manifest is "step-0000000060/manifest.json",
// its shards "step-0000000060/shard-0000-<checksum>.hfs": named after what they hold, so that whoever writes the same step
// again, with other bytes, leaves the shards of the checkpoint that is there alone until its own manifest replaces it.
std::string checkpoint_prefix(int64_t step);
std::string manifest_key(int64_t step);

struct WriteOptions {
  int64_t shard_bytes = 32 << 20;  // raw bytes per shard
  bool in_background = false;      // when the processors have nothing else to do (parallel.h)
  int threads = 1;                 // each packs and puts shards of its own, so puts of some overlap with packing of others
};

// `manifest` comes with job, step, generation, spec and data filled in, and with the state's hash where that is known
// (kCorrupt: the tensors have another one); the rest is filled in here. Refused when a checkpoint of a higher generation is
// there at that step: the writer has been superseded.
Result<Manifest> write_checkpoint(ObjectStore& store, Manifest manifest, std::span<const ConstTensor> tensors,
                                  const WriteOptions& options = {});

// Steps with a manifest, ascending. A manifest that cannot be read is still listed: verify names it.
Result<std::vector<int64_t>> list_checkpoints(ObjectStore& store);
Result<Manifest> read_manifest(ObjectStore& store, int64_t step);
// Both: once `stop` is true they end soon, with kUnavailable. The part of a shard that was read is the store's to stop
// (OpenOptions).
using Stop = const std::atomic<bool>*;
// Reads every byte and checks it; loads nothing. `in_background`: when the processors have nothing else to do (parallel.h).
Result<Manifest> verify_checkpoint(ObjectStore& store, int64_t step, int threads = 1, Stop stop = nullptr,
                                   bool in_background = false);
// Verifies, then fills every tensor. On any error the memory's contents are unspecified and must not be used.
Result<Manifest> read_checkpoint(ObjectStore& store, int64_t step, std::span<const MutableTensor> tensors, int threads = 1,
                                 Stop stop = nullptr);
// Parts of a checkpoint's tensors, whose memory is the caller's. `tensors` are all of the caller's model; each shard that a
// range lies in is verified, and the state's hash is not: whoever has all digests compares it (state_hash.h).
struct MutableRange {
  std::string tensor;
  int64_t offset = 0;  // bytes
  std::span<std::byte> bytes;
};
Result<Manifest> read_ranges(ObjectStore& store, int64_t step, std::span<const TensorInfo> tensors,
                             std::span<const MutableRange> ranges, int threads = 1, Stop stop = nullptr);
// Some tensors of a checkpoint only (for `sample`: the parameters), each shard verified that is touched.
Result<Manifest> read_tensors(ObjectStore& store, int64_t step, std::span<const MutableTensor> tensors, int threads = 1);

// Removes a checkpoint: the manifest first (from then on it is not there), then the shards.
Result<void> remove_checkpoint(ObjectStore& store, int64_t step);
// Which of `steps` (ascending, all committed) retention would remove: keeps the newest `keep_last` (at least 1), everything at
// or above `newest_verified`, and `needed`, in any order; keep_last 0 keeps all.
std::vector<int64_t> retention_victims(std::span<const int64_t> steps, int64_t keep_last, int64_t newest_verified,
                                       std::span<const int64_t> needed = {});

// The outcome of retention. `removed`: steps whose checkpoints are gone; `problem`: why not all that may go went, in words,
// naming the file. It is tried again with the next checkpoint.
struct Retention {
  std::vector<int64_t> removed;
  Result<void> problem;
};
// Removes what retention_victims() names, oldest first, once the checkpoint at `newest` was read back and verified: when it
// does not verify, everything stays. Does not stop at a checkpoint that cannot be removed. `in_background`: it is verified so.
Retention apply_retention(ObjectStore& store, int64_t keep_last, int64_t newest, int threads = 1, Stop stop = nullptr,
                          std::span<const int64_t> needed = {}, bool in_background = false);

// Removes what an unfinished write of this step has put, so that it takes no room; a checkpoint that is there stays.
Result<void> remove_unfinished_write(ObjectStore& store, int64_t step);

// Removes what no manifest names: shards of checkpoints without a manifest, shards that a later writer of the same step
// replaced, and unfinished files of crashed writers. Leaves alone the steps being written, which the caller knows (those of
// every process that may still write here), and folders whose manifest cannot be read. Returns what was removed.
Result<std::vector<std::string>> remove_orphans(ObjectStore& store, std::span<const int64_t> steps_in_progress);

}  // namespace holdfast::storage
