#include "storage/checkpoint_parts.h"

#include <algorithm>
#include <utility>

#include "storage/failure.h"
#include "storage/manifest.h"
#include "storage/parallel.h"
#include "storage/shards/codec.h"
#include "storage/shards/layout.h"
#include "storage/writing.h"

namespace holdfast::storage {
namespace {

Result<void> check_pieces(const PieceTable& table, std::span<const PieceBytes> pieces) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PieceBytes& piece = pieces[i];
    if (piece.number >= table.size() || (i > 0 && piece.number <= pieces[i - 1].number)) {
      return fail(Error::Code::kRefused, "piece {} of the state's {} was given after piece {}: pieces ascend", piece.number,
                  table.size(), i > 0 ? pieces[i - 1].number : 0);
    }
    const int64_t expected = table[piece.number].bytes;
    if (static_cast<int64_t>(piece.bytes.size()) != expected)
      return fail(Error::Code::kRefused, "piece {} of the state has {} bytes, expected {}", piece.number, piece.bytes.size(),
                  expected);
  }
  return {};
}

// Pieces that are shards together: as many as `shard_bytes` takes, and at least one.
std::vector<std::span<const PieceBytes>> grouped(std::span<const PieceBytes> pieces, int64_t shard_bytes) {
  std::vector<std::span<const PieceBytes>> groups;
  while (!pieces.empty()) {
    size_t count = 0;
    for (int64_t bytes = 0; count < pieces.size(); ++count) {
      bytes += static_cast<int64_t>(pieces[count].bytes.size());
      if (count > 0 && bytes > shard_bytes) break;
    }
    groups.push_back(pieces.first(count));
    pieces = pieces.subspan(count);
  }
  return groups;
}

std::vector<PieceRun> runs_of(std::span<const PieceBytes> pieces) {
  std::vector<PieceRun> runs;
  for (const PieceBytes& piece : pieces) {
    const auto number = static_cast<int64_t>(piece.number);
    if (!runs.empty() && runs.back().first + runs.back().count == number) {
      ++runs.back().count;
    } else {
      runs.push_back({number, 1});
    }
  }
  return runs;
}

// The hash of the state that the parts make together.
std::string hash_of(const PieceTable& table, const Parts& parts) {
  std::vector<PieceDigest> digests(table.size());
  for (const auto& [writer, part] : parts) {
    auto digest = part.digests.begin();
    for (const ShardInfo& shard : part.shards) {
      for (const PieceRun& run : shard.pieces) {
        for (int64_t i = 0; i < run.count; ++i) digests[static_cast<size_t>(run.first + i)] = *digest++;
      }
    }
  }
  return state_hash_of(digests);
}

}  // namespace

std::string part_key(int64_t step, int64_t generation, int64_t writer) {
  return fmt::format("{}part-{}-{}.json", checkpoint_prefix(step), generation, writer);
}

Result<Part> write_part(ObjectStore& store, const Manifest& manifest, PartOf of, std::span<const PieceBytes> pieces,
                        const WriteOptions& options) {
  const PieceTable table(manifest.tensors);
  Result<void> done = check_request(manifest, options);
  if (done) done = check_pieces(table, pieces);
  if (done) done = check_not_superseded(store, manifest);
  if (!done) return tl::unexpected(done.error());
  const auto groups = grouped(pieces, options.shard_bytes);
  const int threads = std::max(options.threads, 1);
  std::vector<ShardPacker> packers(static_cast<size_t>(threads) + 1);
  std::vector<std::vector<PieceDigest>> digests(groups.size());
  Part part{manifest.step, manifest.generation, manifest.state_hash, of, std::vector<ShardInfo>(groups.size()), {}};
  const auto write_shard = [&](size_t index, int thread) -> Result<void> {
    const std::span<const PieceBytes> group = groups[index];
    std::vector<ConstPiece> packed;
    for (const PieceBytes& piece : group) {
      packed.push_back({piece.bytes.data(), piece.bytes.size(), table[piece.number].width});
      digests[index].push_back(digest_of(piece.bytes));
    }
    const size_t first = group.front().number;
    auto shard = put_shard(store, manifest.step, first, table.first_byte(first), packed, packers[static_cast<size_t>(thread)]);
    if (!shard) return tl::unexpected(std::move(shard.error()));
    shard->pieces = runs_of(group);
    part.shards[index] = std::move(*shard);
    return {};
  };
  done = options.in_background ? in_background(groups.size(), threads, write_shard)
                               : in_parallel(groups.size(), threads, write_shard);
  if (!done) return tl::unexpected(done.error());
  for (const auto& of_shard : digests) part.digests.insert(part.digests.end(), of_shard.begin(), of_shard.end());
  const std::string text = format_part(part);
  done = store.put(part_key(part.step, part.generation, of.writer), std::as_bytes(std::span(text)));
  if (!done) return tl::unexpected(done.error());
  return part;
}

Result<void> find_parts(ObjectStore& store, const Manifest& manifest, int64_t writers, Parts& parts) {
  for (int64_t writer = 0; writer < writers; ++writer) {
    if (parts.contains(writer)) continue;
    const std::string key = part_key(manifest.step, manifest.generation, writer);
    const auto object = store.get(key);
    if (!object && object.error().code == Error::Code::kNotFound) continue;
    if (!object) return tl::unexpected(object.error());
    auto part = parse_part(*object, object_name(store, key), manifest.step);
    if (!part) return tl::unexpected(part.error());
    // Another one was left by whoever wrote here before: its writer's own will replace it.
    const bool of_this_state = part->generation == manifest.generation && part->state_hash == manifest.state_hash;
    if (of_this_state && part->of == PartOf{writer, writers}) parts.emplace(writer, std::move(*part));
  }
  return {};
}

Result<Manifest> put_manifest_of(ObjectStore& store, Manifest manifest, const Parts& parts) {
  sign(manifest);
  manifest.shards.clear();
  for (const auto& [writer, part] : parts)
    manifest.shards.insert(manifest.shards.end(), part.shards.begin(), part.shards.end());
  const auto contents = contents_of(manifest.tensors, manifest.shards);
  if (!contents)
    return fail(Error::Code::kRefused, "the {} parts of the checkpoint at step {} {}", parts.size(), manifest.step,
                contents.error());
  if (const auto hash = hash_of(PieceTable(manifest.tensors), parts); hash != manifest.state_hash) {
    return fail(Error::Code::kCorrupt,
                "the checkpoint at step {} is not made: the bytes that were written have the hash {}, the state {}",
                manifest.step, hash, manifest.state_hash);
  }
  Result<void> done = check_not_superseded(store, manifest);
  if (done) done = check_there(store, manifest);
  if (done) done = put_manifest(store, manifest);
  if (!done) return tl::unexpected(done.error());
  // Where they cannot be removed now, they are nobody's (remove_orphans).
  for (const auto& [writer, part] : parts) (void)store.remove(part_key(part.step, part.generation, writer));
  return manifest;
}

}  // namespace holdfast::storage
