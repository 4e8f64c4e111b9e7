#include "storage/shards/codec.h"

#include <zstd.h>

#include <cstring>
#include <limits>
#include <new>

#include "storage/byte_planes.h"
#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/shards/header.h"

namespace holdfast::storage {
namespace {

constexpr int kWidthMax = 4;

// Neighbouring pieces of one width are one run; empty pieces are none.
template <typename Piece>
std::vector<ShardRun> runs_of(std::span<const Piece> pieces) {
  std::vector<ShardRun> runs;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    if (runs.empty() || runs.back().width != static_cast<uint32_t>(piece.width))
      runs.push_back({0, static_cast<uint32_t>(piece.width)});
    runs.back().raw_bytes += piece.bytes;
  }
  return runs;
}

// Where the elements of each run's pieces lie in the run's planes: calls visit(piece, run, planes' byte of its first element).
template <typename Piece, typename Visit>
void for_each_piece(std::span<const Piece> pieces, const Visit& visit) {
  size_t run = 0, element = 0;
  int width = 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    if (width != 0 && piece.width != width) {
      ++run;
      element = 0;
    }
    width = piece.width;
    visit(piece, run, element);
    element += piece.bytes / static_cast<size_t>(width);
  }
}

}  // namespace

std::byte* Scratch::at_least(size_t bytes) {
  if (bytes > capacity_) {
    memory_.reset();
    capacity_ = 0;                        // the next lines may throw
    memory_.reset(new std::byte[bytes]);  // not make_unique, which clears it
    capacity_ = bytes;
  }
  return memory_.get();
}

struct ShardPacker::State {
  Scratch planes, object;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd{ZSTD_createCCtx(), ZSTD_freeCCtx};

  void split(std::span<const ConstPiece> pieces, std::span<const ShardRun> runs, uint64_t raw_bytes);
  ShardPlane store_plane(std::span<const std::byte> plane, std::byte* at);
};

ShardPacker::ShardPacker() : state_(std::make_unique<State>()) {
  if (!state_->zstd) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(state_->zstd.get(), ZSTD_c_compressionLevel, kZstdLevel);
}
ShardPacker::~ShardPacker() = default;
ShardPacker::ShardPacker(ShardPacker&&) noexcept = default;

void ShardPacker::State::split(std::span<const ConstPiece> pieces, std::span<const ShardRun> runs, uint64_t raw_bytes) {
  std::vector<std::byte*> bases;  // of each run's first plane
  std::byte* base = planes.at_least(raw_bytes);
  for (const ShardRun& run : runs) {
    bases.push_back(base);
    base += run.raw_bytes;
  }
  for_each_piece(pieces, [&](const ConstPiece& piece, size_t run, size_t element) {
    std::byte* into[kWidthMax];
    const size_t plane_bytes = runs[run].raw_bytes / runs[run].width;
    for (int k = 0; k < piece.width; ++k) into[k] = bases[run] + static_cast<size_t>(k) * plane_bytes + element;
    split_planes(piece.data, piece.bytes / static_cast<size_t>(piece.width), piece.width, into);
  });
}

// Noise is stored as it is: zstd is given less room than that, and gives up.
ShardPlane ShardPacker::State::store_plane(std::span<const std::byte> plane, std::byte* at) {
  const size_t packed = ZSTD_compress2(zstd.get(), at, plane.size() - 1, plane.data(), plane.size());
  ShardPlane stored{packed, ShardPlane::kZstd, 0};
  if (ZSTD_isError(packed)) {
    std::memcpy(at, plane.data(), plane.size());
    stored = {plane.size(), ShardPlane::kRaw, 0};
  }
  stored.checksum = checksum_64({at, stored.stored_bytes});
  return stored;
}

Result<std::span<const std::byte>> ShardPacker::pack(int64_t first_byte, std::span<const ConstPiece> pieces) {
  ShardHeader header{static_cast<uint64_t>(first_byte), runs_of(pieces), {}};
  uint64_t raw_bytes = 0;
  size_t planes = 0;
  for (const ShardRun& run : header.runs) {
    raw_bytes += run.raw_bytes;
    planes += run.width;
  }
  if (raw_bytes > static_cast<uint64_t>(kShardRawBytesMax)) {
    return fail(Error::Code::kRefused, "a shard of {} bytes was asked for, at most {} are allowed: use smaller shards",
                raw_bytes, kShardRawBytesMax);
  }
  state_->split(pieces, header.runs, raw_bytes);
  const size_t header_bytes = shard_header_bytes(header.runs.size(), planes);
  std::byte* const object = state_->object.at_least(header_bytes + raw_bytes);  // no plane grows
  size_t stored = header_bytes;
  const std::byte* plane = state_->planes.at_least(raw_bytes);
  for (const ShardRun& run : header.runs) {
    const size_t plane_bytes = run.raw_bytes / run.width;
    for (uint32_t k = 0; k < run.width; ++k, plane += plane_bytes) {
      header.planes.push_back(state_->store_plane({plane, plane_bytes}, object + stored));
      stored += header.planes.back().stored_bytes;
    }
  }
  write_shard_header(header, raw_bytes, object);
  return std::span<const std::byte>(object, stored);
}

struct ShardUnpacker::State {
  Scratch planes;
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd{ZSTD_createDCtx(), ZSTD_freeDCtx};

  Result<void> decompress(std::span<const std::byte> stored, std::span<std::byte> plane, const std::string& where);
};

ShardUnpacker::ShardUnpacker() : state_(std::make_unique<State>()) {
  if (!state_->zstd) throw std::bad_alloc();
}
ShardUnpacker::~ShardUnpacker() = default;
ShardUnpacker::ShardUnpacker(ShardUnpacker&&) noexcept = default;

Result<void> ShardUnpacker::State::decompress(std::span<const std::byte> stored, std::span<std::byte> plane,
                                              const std::string& where) {
  constexpr auto kCorrupt = Error::Code::kCorrupt;
  const unsigned long long content = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (content != plane.size()) return fail(kCorrupt, "{} is not a zstd frame of {} bytes", where, plane.size());
  const size_t frame = ZSTD_findFrameCompressedSize(stored.data(), stored.size());
  if (ZSTD_isError(frame) || frame != stored.size()) return fail(kCorrupt, "{} is not one whole zstd frame", where);
  const size_t size = ZSTD_decompressDCtx(zstd.get(), plane.data(), plane.size(), stored.data(), stored.size());
  if (ZSTD_isError(size)) return fail(kCorrupt, "{} does not decompress: {}", where, ZSTD_getErrorName(size));
  if (size != plane.size()) return fail(kCorrupt, "{} decompresses to {} bytes, expected {}", where, size, plane.size());
  return {};
}

Result<void> ShardUnpacker::unpack(std::span<const std::byte> object, const std::string& name, int64_t first_byte,
                                   std::span<const MutablePiece> pieces) {
  const std::vector<ShardRun> runs = runs_of(pieces);
  auto header = parse_shard_header(object, name, static_cast<uint64_t>(first_byte), runs);
  if (!header) return tl::unexpected(header.error());

  uint64_t raw_bytes = 0;
  for (const ShardRun& run : runs) raw_bytes += run.raw_bytes;
  std::byte* into = state_->planes.at_least(raw_bytes);
  std::vector<std::vector<const std::byte*>> planes(runs.size());  // where each run's planes lie, in `object` or unpacked
  size_t offset = shard_header_bytes(runs.size(), header->planes.size()), index = 0;
  for (size_t run = 0; run < runs.size(); ++run) {
    const size_t plane_bytes = runs[run].raw_bytes / runs[run].width;
    for (uint32_t k = 0; k < runs[run].width; ++k, into += plane_bytes) {
      const ShardPlane& plane = header->planes[index++];
      const auto stored = object.subspan(offset, plane.stored_bytes);
      const std::string where =
          fmt::format("{}: bytes {} to {}: plane {} of run {}", name, offset, offset + stored.size(), k, run);
      offset += stored.size();
      if (checksum_64(stored) != plane.checksum) {
        return fail(Error::Code::kCorrupt, "{} does not match its checksum: it was altered or torn", where);
      }
      planes[run].push_back(plane.encoding == ShardPlane::kRaw ? stored.data() : into);
      if (plane.encoding == ShardPlane::kRaw) continue;
      if (auto unpacked = state_->decompress(stored, {into, plane_bytes}, where); !unpacked) return unpacked;
    }
  }
  for_each_piece(pieces, [&](const MutablePiece& piece, size_t run, size_t element) {
    if (!piece.data) return;
    const std::byte* from[kWidthMax];
    for (int k = 0; k < piece.width; ++k) from[k] = planes[run][static_cast<size_t>(k)] + element;
    join_planes(from, piece.bytes / static_cast<size_t>(piece.width), piece.width, piece.data);
  });
  return {};
}

}  // namespace holdfast::storage
