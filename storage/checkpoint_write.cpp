// Writing a checkpoint: shards first, each durable when its put returns, then the manifest.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "storage/checkpoint.h"
#include "storage/checksum.h"
#include "storage/manifest.h"
#include "storage/parallel.h"
#include "storage/shard_codec.h"
#include "storage/shard_layout.h"

namespace holdfast::storage {
namespace {

tl::unexpected<Error> refused(const std::string& message) {
  return tl::unexpected(Error{Error::Code::kRefused, message});
}

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
      return refused("tensor " + tensor.name + " (" + tensor.dtype + ") has " + std::to_string(bytes) + " bytes, expected " +
                     (expected ? std::to_string(*expected) + " from its shape" : "a known type and a possible shape"));
    }
    if (std::ranges::any_of(infos, [&](const TensorInfo& other) { return other.name == tensor.name; })) {
      return refused("tensor " + tensor.name + " is given twice: names in a checkpoint are unique");
    }
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, bytes});
  }
  return infos;
}

// A writer that was superseded must not replace what its successor wrote. The window between this and the manifest's put
// is closed by the catalogue, which takes no row of an old generation.
Result<void> check_not_superseded(ObjectStore& store, const Manifest& manifest) {
  const auto there = read_manifest(store, manifest.step);
  if (there && there->generation > manifest.generation) {
    return refused("checkpoint at step " + std::to_string(manifest.step) + " in " + store.describe() +
                   " was written by generation " + std::to_string(there->generation) + ", this writer belongs to generation " +
                   std::to_string(manifest.generation) + " and is superseded");
  }
  if (!there && there.error().code == Error::Code::kUnavailable) return tl::unexpected(there.error());
  if (!there && there.error().code == Error::Code::kRefused) return tl::unexpected(there.error());
  return {};  // none, an older one, or one that no longer reads and is better replaced
}

class Writing {
 public:
  Writing(ObjectStore& store, Manifest& manifest, std::span<const ConstTensor> tensors, const WriteOptions& options)
      : store_(store), manifest_(manifest), tensors_(tensors), threads_(std::max(options.threads, 1)) {
    int64_t first = 0;
    for (const int64_t size : shard_sizes(manifest.tensors, options.shard_bytes)) {
      manifest_.shards.push_back({"", size, 0, ""});
      first_bytes_.push_back(first);
      first += size;
    }
    for (int i = 0; i < threads_; ++i) packers_.emplace_back(options.zstd_level);
  }

  Result<void> run() {
    // The hash is one more piece of work, and the longest that cannot be split: first.
    Result<void> done = in_parallel(1 + manifest_.shards.size(), threads_, [&](size_t index, int thread) -> Result<void> {
      if (index > 0) return write_shard(index - 1, packers_[static_cast<size_t>(thread)]);
      manifest_.state_hash = state_hash(tensors_);
      return {};
    });
    if (done) done = check_not_superseded(store_, manifest_);
    if (!done) return done;
    const auto text = format_manifest(manifest_);
    if (!text) return tl::unexpected(text.error());
    return store_.put(manifest_key(manifest_.step), std::as_bytes(std::span(*text)));
  }

 private:
  Result<void> write_shard(size_t index, ShardPacker& packer) {
    ShardInfo& shard = manifest_.shards[index];
    std::vector<ConstPiece> pieces;
    const auto ranges = ranges_of(manifest_.tensors, first_bytes_[index], shard.raw_bytes);
    for (const TensorRange& range : ranges.value()) {
      pieces.push_back({tensors_[range.tensor].bytes.data() + range.offset, static_cast<size_t>(range.bytes), range.width});
    }
    const auto object = packer.pack(first_bytes_[index], pieces);
    if (!object) return tl::unexpected(object.error());
    shard.stored_bytes = static_cast<int64_t>(object->size());
    shard.checksum = checksum_hex(*object);
    char number[32];
    std::snprintf(number, sizeof(number), "shard-%04zu-", index);
    shard.key = checkpoint_prefix(manifest_.step) + number + shard.checksum + ".hfs";
    return store_.put(shard.key, *object);
  }

  ObjectStore& store_;
  Manifest& manifest_;
  std::span<const ConstTensor> tensors_;
  int threads_;
  std::vector<int64_t> first_bytes_;
  std::vector<ShardPacker> packers_;
};

}  // namespace

std::string state_hash(std::span<const ConstTensor> tensors) {
  RunningChecksum checksum;
  for (const ConstTensor& tensor : tensors) checksum.add(tensor.bytes);
  return checksum.hex();
}

Result<Manifest> write_checkpoint(ObjectStore& store, Manifest manifest, std::span<const ConstTensor> tensors,
                                  const WriteOptions& options) {
  if (manifest.step < 0 || manifest.generation < 0) {
    return refused("a checkpoint at step " + std::to_string(manifest.step) + " of generation " +
                   std::to_string(manifest.generation) + " was asked for: neither can be negative");
  }
  if (options.shard_bytes < 1 || options.shard_bytes > kShardRawBytesMax) {
    return refused("shards of " + std::to_string(options.shard_bytes) + " bytes were asked for: choose 1 to " +
                   std::to_string(kShardRawBytesMax));
  }
  auto infos = describe(tensors);
  if (!infos) return tl::unexpected(infos.error());
  manifest.tensors = std::move(*infos);
  manifest.shards.clear();
  manifest.format_version = Manifest::kFormatVersion;
  manifest.written_by = this_writer();
  if (manifest.created_at.empty()) manifest.created_at = now_utc();
  if (auto current = check_not_superseded(store, manifest); !current) return tl::unexpected(current.error());
  if (auto written = Writing(store, manifest, tensors, options).run(); !written) return tl::unexpected(written.error());
  return manifest;
}

}  // namespace holdfast::storage
