// The head of a shard: what its planes are and where. FORMAT.md, "Shard", states every byte.
//
// Promises: a header that parses describes planes that exactly fill the object, and is the one that was written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace holdfast::storage {

struct ShardRun {  // elements of one width
  uint64_t raw_bytes;
  uint32_t width;
};

struct ShardPlane {
  enum Encoding : uint32_t { kRaw = 0, kZstd = 1 };
  uint64_t stored_bytes;
  uint32_t encoding;
  uint64_t checksum;  // XXH3-64 of the stored bytes
};

struct ShardHeader {
  uint64_t first_byte = 0;  // of the checkpoint's bytes, end to end
  std::vector<ShardRun> runs;
  std::vector<ShardPlane> planes;  // of the first run, by byte; then of the second…
};

size_t shard_header_bytes(size_t runs, size_t planes);
// Writes the header at the front of `object`, which has room for it.
void write_shard_header(const ShardHeader& header, uint64_t raw_bytes, std::byte* object);
// Checks everything that can be checked without the planes' bytes. `runs` and `first_byte` are what is expected.
Result<ShardHeader> parse_shard_header(std::span<const std::byte> object, const std::string& name, uint64_t first_byte,
                                       std::span<const ShardRun> runs);

}  // namespace holdfast::storage
