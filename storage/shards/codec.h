// Shards: a contiguous range of a checkpoint's bytes as one self-checking object. FORMAT.md states every byte.
//
// Promises: what unpacks without an error is what was packed, every byte of the object was checked, and no length taken
// from the object is believed before it is checked against what the caller expects.
// Refuses: an object that is short, long, altered or of another range or layout, naming what is wrong and at which byte.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/object_store.h"

namespace holdfast::storage {

// Readers take any level (FORMAT.md): it may change without a new version of the format.
inline constexpr int kZstdLevel = 1;
inline constexpr int64_t kShardRawBytesMax = int64_t{128} << 20;

// A part of a tensor, whole elements of it. A shard's pieces lie end to end.
struct ConstPiece {
  const std::byte* data;
  size_t bytes;
  int width;  // of an element: 2 or 4
};
struct MutablePiece {
  std::byte* data;  // nullptr: not wanted
  size_t bytes;
  int width;
};

// Memory that is taken once and grows, without being cleared each time.
class Scratch {
 public:
  std::byte* at_least(size_t bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
};

// One per thread: holds buffers as large as the largest shard it saw.
class ShardPacker {
 public:
  ShardPacker();
  ~ShardPacker();
  ShardPacker(ShardPacker&&) noexcept;

  // The object that holds `pieces`, which begin at byte `first_byte` of the checkpoint. Valid until the next call.
  Result<std::span<const std::byte>> pack(int64_t first_byte, std::span<const ConstPiece> pieces);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class ShardUnpacker {
 public:
  ShardUnpacker();
  ~ShardUnpacker();
  ShardUnpacker(ShardUnpacker&&) noexcept;

  // `name` is the object's, for errors. On an error the pieces' contents are unspecified.
  Result<void> unpack(std::span<const std::byte> object, const std::string& name, int64_t first_byte,
                      std::span<const MutablePiece> pieces);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::storage
