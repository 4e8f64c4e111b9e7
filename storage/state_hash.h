// The hash of a state, of the digests of its pieces: whoever holds some of the pieces can say its part of the hash.
// FORMAT.md, "The state's hash", states both versions.
//
// A piece is kPieceElements elements of one tensor, its last one fewer; it does not depend on who holds what.
// Thread: pure functions; a StateHasher belongs to one.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "storage/checksum.h"

namespace holdfast::storage {

inline constexpr int64_t kPieceElements = 65536;

// XXH3-128 of a piece's bytes, in its canonical (big-endian) form.
struct PieceDigest {
  std::array<std::byte, 16> bytes{};
  auto operator<=>(const PieceDigest&) const = default;
};
PieceDigest digest_of(std::span<const std::byte> piece);

// The state's hash: of the digests of all pieces, in the order of the state's bytes; 32 lower-case hex digits.
std::string state_hash_of(std::span<const PieceDigest> digests);

struct TensorInfo;

// The hash over a state's bytes that come in their order, in parts of any length.
class StateHasher {
 public:
  // 1: XXH3-128 of all bytes, as checkpoints of format version 1 have it. 2: as above.
  enum class Version : uint8_t { kBytes = 1, kPieces = 2 };
  // `tensors` outlive it.
  StateHasher(Version version, std::span<const TensorInfo> tensors);

  void add(std::span<const std::byte> bytes);
  std::string hex();  // after the last byte

 private:
  // Goes on to the next piece that has bytes; 0 left: there is none.
  void begin_piece();

  Version version_;
  std::span<const TensorInfo> tensors_;
  RunningChecksum running_;  // of all bytes, or of the piece under way
  std::vector<PieceDigest> digests_;
  size_t tensor_ = 0;
  int64_t tensor_left_ = 0;  // bytes of the tensor under way that no piece has yet
  size_t piece_left_ = 0;    // bytes that the piece under way lacks
};

}  // namespace holdfast::storage
