// A checkpoint of a state that several writers have between them. FORMAT.md, "Several writers", states every byte.
//
// Each writer puts shards of some of the state's pieces, and then its part: an object that names them. Once all parts are
// there, one of the writers puts the manifest. Promises: the manifest is put when every shard is durable and there, and its
// hash is that of the bytes that were written, and of the state that the writers have agreed on. Refuses: parts that do not
// make a whole, saying which piece is missing or twice. Thread: any; a part belongs to one writer.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "storage/checkpoint.h"
#include "storage/state_hash.h"

namespace holdfast::storage {

struct PartOf {
  int64_t writer = 0, writers = 1;  // 0 puts the manifest
  bool operator==(const PartOf&) const = default;
};

// A piece of the state: its number, and its bytes, which are the caller's.
struct PieceBytes {
  size_t number = 0;
  std::span<const std::byte> bytes;
};

struct Part {
  int64_t step = 0, generation = 0;
  std::string state_hash;  // of the whole state
  PartOf of;
  std::vector<ShardInfo> shards;
  std::vector<PieceDigest> digests;  // of the shards' pieces, in their order
};

// "step-0000000060/part-3-1.json": of the writer 1 in generation 3.
std::string part_key(int64_t step, int64_t generation, int64_t writer);

// `manifest`: with step, generation, tensors and the state's hash filled in, for the writers know it of each other before they
// begin. `pieces`: ascending. Returns when the part is durable.
// Refused as write_checkpoint is where the writer has been superseded.
Result<Part> write_part(ObjectStore& store, const Manifest& manifest, PartOf of, std::span<const PieceBytes> pieces,
                        const WriteOptions& options = {});

using Parts = std::map<int64_t, Part>;  // by writer

// Adds the parts of this manifest's state that are there and not in `parts`. kCorrupt: one does not read.
Result<void> find_parts(ObjectStore& store, const Manifest& manifest, int64_t writers, Parts& parts);

// Puts the manifest of a checkpoint whose parts are all there, and removes the parts. `manifest`: as for write_part, with job,
// spec and data; the rest is filled in here. Refused as write_checkpoint is, and where the parts do not make a whole. kCorrupt:
// they are another state than the manifest's. kUnavailable: shards of some parts have gone; or the store is away.
Result<Manifest> put_manifest_of(ObjectStore& store, Manifest manifest, const Parts& parts);

}  // namespace holdfast::storage
