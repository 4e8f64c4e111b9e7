// The common part of those that write checkpoints, one writer or several. Internal to storage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "storage/checkpoint.h"
#include "storage/shards/codec.h"

namespace holdfast::storage {

// Refused: a step, a generation or a size of shards that cannot be.
Result<void> check_request(const Manifest& manifest, const WriteOptions& options);

// A writer that was superseded must not replace what its successor wrote. The window between this and the manifest's put
// is closed by the catalogue, which takes no row of an old generation.
Result<void> check_not_superseded(ObjectStore& store, const Manifest& manifest);

// The manifest's shards are in the store. Kept for the moment before the manifest's put: they may have been removed as nobody's
// in the meantime, by whoever took over.
Result<void> check_there(ObjectStore& store, const Manifest& manifest);

// Packs a shard and puts it. `number`: of the shard, in its name. Returns without `pieces`.
Result<ShardInfo> put_shard(ObjectStore& store, int64_t step, size_t number, int64_t first_byte,
                            std::span<const ConstPiece> pieces, ShardPacker& packer);

// Fills in the format's version, the writer and, where it is empty, the time.
void sign(Manifest& manifest);
// The last step: the shards are durable.
Result<void> put_manifest(ObjectStore& store, const Manifest& manifest);

}  // namespace holdfast::storage
