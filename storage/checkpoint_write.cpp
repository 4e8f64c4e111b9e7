// Writing a checkpoint: shards first, each durable when its put returns, then the manifest.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "storage/checkpoint.h"
#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/manifest.h"
#include "storage/parallel.h"
#include "storage/shards/codec.h"
#include "storage/shards/layout.h"
#include "storage/state_hash.h"
#include "storage/writing.h"

namespace holdfast::storage {
namespace {

constexpr auto kRefused = Error::Code::kRefused;

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Result<std::vector<TensorInfo>> describe(std::span<const ConstTensor> tensors) {
  std::vector<TensorInfo> infos;
  for (const ConstTensor& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    const std::optional<int64_t> expected = tensor_bytes(tensor.dtype, tensor.shape);
    if (expected != bytes) {
      return fail(kRefused, "tensor {} ({}) has {} bytes, expected {}", tensor.name, tensor.dtype, bytes,
                  expected ? fmt::format("{} from its shape", *expected) : "a known type and a possible shape");
    }
    if (std::ranges::any_of(infos, [&](const TensorInfo& other) { return other.name == tensor.name; })) {
      return fail(kRefused, "tensor {} is given twice: names in a checkpoint are unique", tensor.name);
    }
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
  }
  return infos;
}

class CheckpointWriting {
 public:
  CheckpointWriting(ObjectStore& store, Manifest& manifest, std::span<const ConstTensor> tensors, const WriteOptions& options)
      : store_(store),
        manifest_(manifest),
        tensors_(tensors),
        threads_(std::max(options.threads, 1)),
        in_background_(options.in_background) {
    int64_t first = 0;
    for (const int64_t size : shard_sizes(manifest.tensors, options.shard_bytes)) {
      manifest_.shards.push_back({"", size, 0, "", {}});
      first_bytes_.push_back(first);
      first += size;
    }
    for (int i = 0; i <= threads_; ++i) packers_.emplace_back();
  }

  Result<void> run() {
    // The hash is one more piece of work, and the longest that cannot be split: first.
    const auto piece = [&](size_t index, int thread) -> Result<void> {
      return index > 0 ? write_shard(index - 1, packers_[static_cast<size_t>(thread)]) : hash();
    };
    const size_t pieces = 1 + manifest_.shards.size();
    Result<void> done = in_background_ ? in_background(pieces, threads_, piece) : in_parallel(pieces, threads_, piece);
    if (done) done = check_not_superseded(store_, manifest_);
    if (done) done = check_there(store_, manifest_);
    return done ? put_manifest(store_, manifest_) : done;
  }

 private:
  Result<void> hash() {
    const std::string known = std::exchange(manifest_.state_hash, state_hash(tensors_));
    if (known.empty() || known == manifest_.state_hash) return {};
    return fail(
        Error::Code::kCorrupt,
        "the copy of the state at step {} has hash {}, the state had {}: it was changed while it was copied, and is not "
        "written down",
        manifest_.step, manifest_.state_hash, known);
  }

  Result<void> write_shard(size_t index, ShardPacker& packer) {
    std::vector<ConstPiece> pieces;
    const auto ranges = ranges_of(manifest_.tensors, first_bytes_[index], manifest_.shards[index].raw_bytes);
    for (const TensorRange& range : ranges.value()) {
      pieces.push_back({tensors_[range.tensor].bytes.data() + range.offset, static_cast<size_t>(range.bytes), range.width});
    }
    auto shard = put_shard(store_, manifest_.step, index, first_bytes_[index], pieces, packer);
    if (!shard) return tl::unexpected(std::move(shard.error()));
    manifest_.shards[index] = std::move(*shard);
    return {};
  }

  ObjectStore& store_;
  Manifest& manifest_;
  std::span<const ConstTensor> tensors_;
  int threads_;
  bool in_background_;
  std::vector<int64_t> first_bytes_;
  std::vector<ShardPacker> packers_;  // of each thread
};

}  // namespace

Result<void> check_request(const Manifest& manifest, const WriteOptions& options) {
  if (manifest.step < 0 || manifest.generation < 0) {
    return fail(kRefused, "a checkpoint at step {} of generation {} was asked for: neither can be negative", manifest.step,
                manifest.generation);
  }
  if (options.shard_bytes < 1 || options.shard_bytes > kShardRawBytesMax) {
    return fail(kRefused, "shards of {} bytes were asked for: choose 1 to {}", options.shard_bytes, kShardRawBytesMax);
  }
  return {};
}

Result<void> check_not_superseded(ObjectStore& store, const Manifest& manifest) {
  const auto there = read_manifest(store, manifest.step);
  if (there && there->generation > manifest.generation) {
    return fail(
        kRefused,
        "checkpoint at step {} in {} was written by generation {}, this writer belongs to generation {} and is superseded",
        manifest.step, store.describe(), there->generation, manifest.generation);
  }
  if (!there && there.error().code == Error::Code::kUnavailable) return tl::unexpected(there.error());
  if (!there && there.error().code == Error::Code::kRefused) return tl::unexpected(there.error());
  return {};  // none, an older one, or one that no longer reads and is better replaced
}

Result<void> check_there(ObjectStore& store, const Manifest& manifest) {
  const auto keys = store.list(checkpoint_prefix(manifest.step));
  if (!keys) return tl::unexpected(keys.error());
  for (const ShardInfo& shard : manifest.shards) {
    // A list may be of an older state, as an old Ceph's is.
    if (!std::ranges::binary_search(*keys, shard.key) && is_absent(store, shard.key))
      return fail(Error::Code::kUnavailable, "{}: is missing, though its writer has written it", object_name(store, shard.key));
  }
  return {};
}

Result<ShardInfo> put_shard(ObjectStore& store, int64_t step, size_t number, int64_t first_byte,
                            std::span<const ConstPiece> pieces, ShardPacker& packer) {
  const auto object = packer.pack(first_byte, pieces);
  if (!object) return tl::unexpected(object.error());
  ShardInfo shard;
  for (const ConstPiece& piece : pieces) shard.raw_bytes += static_cast<int64_t>(piece.bytes);
  shard.stored_bytes = static_cast<int64_t>(object->size());
  shard.checksum = checksum_hex(*object);
  shard.key = fmt::format("{}shard-{:04}-{}.hfs", checkpoint_prefix(step), number, shard.checksum);
  if (auto put = store.put(shard.key, *object); !put) return tl::unexpected(std::move(put.error()));
  return shard;
}

void sign(Manifest& manifest) {
  manifest.format_version = Manifest::kFormatVersion;
  manifest.written_by = this_writer();
  if (manifest.created_at.empty()) manifest.created_at = now_utc();
}

Result<void> put_manifest(ObjectStore& store, const Manifest& manifest) {
  const auto text = format_manifest(manifest);
  if (!text) return tl::unexpected(text.error());
  return store.put(manifest_key(manifest.step), std::as_bytes(std::span(*text)));
}

std::string state_hash(std::span<const ConstTensor> tensors) {
  std::vector<TensorInfo> infos;
  for (const ConstTensor& tensor : tensors)
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes.size())});
  StateHasher hasher(StateHasher::Version::kPieces, infos);
  for (const ConstTensor& tensor : tensors) hasher.add(tensor.bytes);
  return hasher.hex();
}

Result<Manifest> write_checkpoint(ObjectStore& store, Manifest manifest, std::span<const ConstTensor> tensors,
                                  const WriteOptions& options) {
  if (auto possible = check_request(manifest, options); !possible) return tl::unexpected(possible.error());
  auto infos = describe(tensors);
  if (!infos) return tl::unexpected(infos.error());
  manifest.tensors = std::move(*infos);
  manifest.shards.clear();
  sign(manifest);
  if (auto current = check_not_superseded(store, manifest); !current) return tl::unexpected(current.error());
  if (auto written = CheckpointWriting(store, manifest, tensors, options).run(); !written)
    return tl::unexpected(written.error());
  return manifest;
}

}  // namespace holdfast::storage
