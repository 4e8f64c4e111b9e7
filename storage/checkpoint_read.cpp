// Reading a checkpoint: the manifest, then shards in parallel, each checked as an object and as its content, then the hash
// of the whole state.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "storage/checkpoint.h"
#include "storage/checksum.h"
#include "storage/failure.h"
#include "storage/manifest.h"
#include "storage/parallel.h"
#include "storage/shards/codec.h"
#include "storage/shards/layout.h"
#include "storage/state_hash.h"

namespace holdfast::storage {
namespace {

constexpr auto kCorrupt = Error::Code::kCorrupt;

// A shard that is not there. Removal of a checkpoint begins with its manifest, so the manifest is looked for again.
tl::unexpected<Error> missing(ObjectStore& store, const Manifest& manifest, const std::string& shard) {
  if (is_absent(store, manifest_key(manifest.step))) {
    return fail(Error::Code::kNotFound, "checkpoint at step {} in {} was removed while it was read", manifest.step,
                store.describe());
  }
  return fail(kCorrupt, "{}: is missing, its checkpoint's manifest names it", shard);
}

// The shard's object, checked against the manifest. A fault inside it is looked for, to say where.
Result<Bytes> fetch(ObjectStore& store, const Manifest& manifest, const ShardInfo& shard) {
  auto object = store.get(shard.key);
  const std::string name = object_name(store, shard.key);
  if (!object && object.error().code == Error::Code::kNotFound) return missing(store, manifest, name);
  if (!object) return object;
  if (static_cast<int64_t>(object->size()) != shard.stored_bytes) {
    return fail(kCorrupt, "{}: has {} bytes, the manifest says {}: it was cut short, added to or replaced", name,
                object->size(), shard.stored_bytes);
  }
  return object;
}

class Reading {
 public:
  Reading(ObjectStore& store, const Manifest& manifest, int threads, Stop stop = nullptr, bool in_background = false)
      : store_(store),
        manifest_(manifest),
        stop_(stop),
        in_background_(in_background),
        unpackers_(static_cast<size_t>(std::max(threads, 1) + (in_background ? 1 : 0))),
        contents_(contents_of(manifest.tensors, manifest.shards).value()) {}

  int threads() const { return static_cast<int>(unpackers_.size()); }

  // Pieces of work, numbered, by threads below threads(). Where the background took long for one call, as it does when other
  // programs leave it no processor, later calls are the caller's alone: every call would wait for it.
  template <typename Work>
  Result<void> each(size_t count, const Work& work) {
    if (!in_background_) return in_parallel(count, threads(), work);
    if (is_starved_) return in_parallel(count, 1, work);
    constexpr std::chrono::seconds kLong(10);  // shards of a slow store take less
    const auto begun = std::chrono::steady_clock::now();
    auto done = in_background(count, threads() - 1, work);
    is_starved_ = std::chrono::steady_clock::now() - begun > kLong;
    return done;
  }

  // Where the bytes of a tensor's range go; nullptr for nowhere.
  using Target = std::function<std::byte*(const TensorRange&)>;

  Result<void> unpack(size_t index, int thread, const Target& target) {
    const ShardInfo& shard = manifest_.shards[index];
    std::vector<MutablePiece> pieces;
    for (const TensorRange& range : ranges(index))
      pieces.push_back({target(range), static_cast<size_t>(range.bytes), range.width});
    if (const auto goes_on = check_stop(); !goes_on) return goes_on;
    const auto object = fetch(store_, manifest_, shard);
    if (!object) return tl::unexpected(object.error());
    if (const auto goes_on = check_stop(); !goes_on) return goes_on;
    const std::string name = object_name(store_, shard.key);
    Result<void> unpacked = unpackers_[static_cast<size_t>(thread)].unpack(*object, name, contents_[index].first_byte, pieces);
    const std::string found = checksum_hex(*object);
    if (found != shard.checksum && (unpacked || unpacked.error().code != kCorrupt)) {
      return fail(kCorrupt, "{}: checksum is {}, the manifest says {}: it was replaced", name, found, shard.checksum);
    }
    return unpacked;  // on failure it says where
  }

  const std::vector<TensorRange>& ranges(size_t index) const { return contents_[index].ranges; }

  Result<void> check_stop() const {
    if (stop_ == nullptr || !*stop_) return {};
    return fail(Error::Code::kUnavailable, "reading the checkpoint at step {} in {} was stopped", manifest_.step,
                store_.describe());
  }

  Result<void> check_hash(const std::string& found) const {
    if (found == manifest_.state_hash) return {};
    return fail(kCorrupt,
                "checkpoint at step {} in {}: hash of the state is {}, the manifest says {}: it was assembled from shards of "
                "different writes",
                manifest_.step, store_.describe(), found, manifest_.state_hash);
  }

 private:
  ObjectStore& store_;
  const Manifest& manifest_;
  const Stop stop_;
  const bool in_background_;
  bool is_starved_ = false;
  std::vector<ShardUnpacker> unpackers_;
  std::vector<ShardContents> contents_;
};

StateHasher hasher_of(const Manifest& manifest) {
  using enum StateHasher::Version;
  return {manifest.format_version == 1 ? kBytes : kPieces, manifest.tensors};
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

// "n_embd 384 there": what the spec says of the model, where it does.
std::string model_text(const nlohmann::json& spec) {
  std::string text;
  for (const char* field : {"n_layer", "n_embd", "n_head", "vocab_size", "block_size", "tied_head"}) {
    if (spec.is_object() && spec.contains(field))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", field, spec[field].dump());
  }
  return text;
}

const TensorInfo* find(const Manifest& manifest, const std::string& name) {
  const auto found = std::ranges::find(manifest.tensors, name, &TensorInfo::name);
  return found == manifest.tensors.end() ? nullptr : &*found;
}

// The difference between the checkpoint's tensors and the caller's, in words.
std::vector<std::string> differences(const Manifest& manifest, std::span<const TensorInfo> tensors, bool all) {
  std::vector<std::string> found;
  for (const TensorInfo& tensor : tensors) {
    const TensorInfo* there = find(manifest, tensor.name);
    if (!there) {
      found.push_back("it has no " + tensor.name);
    } else if (there->dtype != tensor.dtype || there->shape != tensor.shape || there->bytes != tensor.bytes) {
      found.push_back(fmt::format("its {} is {} {}, this one's {} {}", tensor.name, there->dtype, shape_text(there->shape),
                                  tensor.dtype, shape_text(tensor.shape)));
    }
  }
  if (!all) return found;
  for (const TensorInfo& there : manifest.tensors) {
    if (std::ranges::find(tensors, there.name, &TensorInfo::name) == tensors.end())
      found.push_back("this one has no " + there.name);
  }
  return found;
}

std::vector<TensorInfo> infos_of(std::span<const MutableTensor> tensors) {
  std::vector<TensorInfo> infos;
  for (const MutableTensor& tensor : tensors)
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes.size())});
  return infos;
}

Result<void> check_model(const ObjectStore& store, const Manifest& manifest, std::span<const TensorInfo> tensors, bool all) {
  const std::vector<std::string> found = differences(manifest, tensors, all);
  if (found.empty()) return {};
  std::string model = model_text(manifest.spec);
  if (!model.empty()) model = " (" + model + ")";
  constexpr size_t kShown = 3;
  const size_t shown = std::min(found.size(), kShown);
  const std::string more = found.size() > shown ? fmt::format("; and {} more", found.size() - shown) : "";
  return fail(
      Error::Code::kRefused,
      "checkpoint at step {} in {} is of another model{}: {}{}. Give the model's sizes as they were, or another checkpoint",
      manifest.step, store.describe(), model,
      fmt::join(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), "; "), more);
}

// The caller's tensors in the manifest's order: nullptr for those not asked for.
std::vector<const MutableTensor*> by_manifest_order(const Manifest& manifest, std::span<const MutableTensor> tensors) {
  std::vector<const MutableTensor*> ordered;
  for (const TensorInfo& there : manifest.tensors) {
    const auto mine = std::ranges::find(tensors, there.name, &MutableTensor::name);
    ordered.push_back(mine == tensors.end() ? nullptr : &*mine);
  }
  return ordered;
}

// The caller's ranges, by the manifest's tensors.
class RangesOfTensors {
 public:
  RangesOfTensors(const Manifest& manifest, std::span<const MutableRange> ranges) : by_tensor_(manifest.tensors.size()) {
    for (const MutableRange& range : ranges) {
      const auto tensor = std::ranges::find(manifest.tensors, range.tensor, &TensorInfo::name) - manifest.tensors.begin();
      by_tensor_[static_cast<size_t>(tensor)].push_back(&range);
    }
  }
  bool touch(const TensorRange& range) const {
    return std::ranges::any_of(by_tensor_[range.tensor],
                               [&](const MutableRange* wanted) { return overlap(range, *wanted) > 0; });
  }
  // `from`: the bytes of `range`.
  void fill(const TensorRange& range, const std::byte* from) const {
    for (const MutableRange* const wanted : by_tensor_[range.tensor]) {
      const int64_t bytes = overlap(range, *wanted), first = std::max(range.offset, wanted->offset);
      if (bytes > 0)
        std::memcpy(wanted->bytes.data() + (first - wanted->offset), from + (first - range.offset), static_cast<size_t>(bytes));
    }
  }

 private:
  static int64_t overlap(const TensorRange& range, const MutableRange& wanted) {
    const int64_t end = std::min(range.offset + range.bytes, wanted.offset + static_cast<int64_t>(wanted.bytes.size()));
    return end - std::max(range.offset, wanted.offset);
  }
  std::vector<std::vector<const MutableRange*>> by_tensor_;
};

// A shard's bytes, its ranges end to end.
Result<std::span<const std::byte>> unpack_whole(Reading& reading, const ShardInfo& shard, size_t index, int thread,
                                                Scratch& buffer) {
  const auto bytes = static_cast<size_t>(shard.raw_bytes);
  std::byte* const begin = buffer.at_least(bytes);
  std::byte* at = begin;
  const auto unpacked =
      reading.unpack(index, thread, [&at](const TensorRange& range) { return std::exchange(at, at + range.bytes); });
  if (!unpacked) return tl::unexpected(unpacked.error());
  return std::span<const std::byte>(begin, bytes);
}

// The hash of the state, from shards that follow one another. Waves of as many shards as there are threads, so that their bytes
// can be hashed in order without holding all of them.
Result<std::string> hash_in_order(Reading& reading, const Manifest& manifest) {
  StateHasher hash = hasher_of(manifest);
  std::vector<Scratch> buffers(static_cast<size_t>(reading.threads()));
  std::vector<std::span<const std::byte>> held(buffers.size());
  for (size_t first = 0; first < manifest.shards.size(); first += buffers.size()) {
    const size_t wave = std::min(buffers.size(), manifest.shards.size() - first);
    const auto done = reading.each(wave, [&](size_t i, int thread) -> Result<void> {
      const auto bytes = unpack_whole(reading, manifest.shards[first + i], first + i, thread, buffers[i]);
      if (!bytes) return tl::unexpected(bytes.error());
      held[i] = *bytes;
      return {};
    });
    if (!done) return tl::unexpected(done.error());
    for (size_t i = 0; i < wave; ++i) hash.add(held[i]);
  }
  return hash.hex();
}

// The same, from shards that name their pieces.
Result<std::string> hash_by_pieces(Reading& reading, const Manifest& manifest) {
  const PieceTable table(manifest.tensors);
  std::vector<PieceDigest> digests(table.size());
  std::vector<Scratch> buffers(static_cast<size_t>(reading.threads()));
  const auto done = reading.each(manifest.shards.size(), [&](size_t i, int thread) -> Result<void> {
    auto bytes = unpack_whole(reading, manifest.shards[i], i, thread, buffers[static_cast<size_t>(thread)]);
    if (!bytes) return tl::unexpected(bytes.error());
    for (const PieceRun& run : manifest.shards[i].pieces) {
      for (int64_t number = run.first; number < run.first + run.count; ++number) {
        const auto piece = bytes->first(static_cast<size_t>(table[static_cast<size_t>(number)].bytes));
        digests[static_cast<size_t>(number)] = digest_of(piece);
        bytes = bytes->subspan(piece.size());
      }
    }
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  return state_hash_of(digests);
}

Reading::Target into(const std::vector<const MutableTensor*>& ordered) {
  return [&ordered](const TensorRange& range) {
    return ordered[range.tensor] ? ordered[range.tensor]->bytes.data() + range.offset : nullptr;
  };
}

}  // namespace

Result<Manifest> read_manifest(ObjectStore& store, int64_t step) {
  const auto bytes = store.get(manifest_key(step));
  if (bytes) return parse_manifest(*bytes, object_name(store, manifest_key(step)), step);
  if (bytes.error().code != Error::Code::kNotFound) return tl::unexpected(bytes.error());
  return fail(Error::Code::kNotFound, "there is no checkpoint at step {} in {}: `holdfast ckpt ls` lists those there are", step,
              store.describe());
}

Result<Manifest> verify_checkpoint(ObjectStore& store, int64_t step, int threads, Stop stop, bool in_background) {
  auto manifest = read_manifest(store, step);
  if (!manifest) return manifest;
  Reading reading(store, *manifest, threads, stop, in_background);
  const bool by_pieces = std::ranges::any_of(manifest->shards, [](const ShardInfo& shard) { return !shard.pieces.empty(); });
  const auto hash = by_pieces ? hash_by_pieces(reading, *manifest) : hash_in_order(reading, *manifest);
  if (!hash) return tl::unexpected(hash.error());
  if (const auto same = reading.check_hash(*hash); !same) return tl::unexpected(same.error());
  return manifest;
}

Result<Manifest> read_checkpoint(ObjectStore& store, int64_t step, std::span<const MutableTensor> tensors, int threads,
                                 Stop stop) {
  auto manifest = read_manifest(store, step);
  if (!manifest) return manifest;
  if (const auto same = check_model(store, *manifest, infos_of(tensors), true); !same) return tl::unexpected(same.error());
  const auto ordered = by_manifest_order(*manifest, tensors);
  Reading reading(store, *manifest, threads, stop);
  const auto done = in_parallel(manifest->shards.size(), reading.threads(),
                                [&](size_t i, int thread) { return reading.unpack(i, thread, into(ordered)); });
  if (!done) return tl::unexpected(done.error());
  StateHasher hash = hasher_of(*manifest);
  for (const MutableTensor* tensor : ordered) {
    if (const auto goes_on = reading.check_stop(); !goes_on) return tl::unexpected(goes_on.error());
    hash.add(tensor->bytes);
  }
  if (const auto same = reading.check_hash(hash.hex()); !same) return tl::unexpected(same.error());
  return manifest;
}

Result<Manifest> read_tensors(ObjectStore& store, int64_t step, std::span<const MutableTensor> tensors, int threads) {
  auto manifest = read_manifest(store, step);
  if (!manifest) return manifest;
  if (const auto same = check_model(store, *manifest, infos_of(tensors), false); !same) return tl::unexpected(same.error());
  const auto ordered = by_manifest_order(*manifest, tensors);
  Reading reading(store, *manifest, threads);
  std::vector<size_t> touched;
  for (size_t i = 0; i < manifest->shards.size(); ++i) {
    const auto& ranges = reading.ranges(i);
    if (std::ranges::any_of(ranges, [&](const TensorRange& range) { return ordered[range.tensor] != nullptr; }))
      touched.push_back(i);
  }
  const auto done = in_parallel(touched.size(), reading.threads(),
                                [&](size_t i, int thread) { return reading.unpack(touched[i], thread, into(ordered)); });
  if (!done) return tl::unexpected(done.error());
  return manifest;
}

Result<Manifest> read_ranges(ObjectStore& store, int64_t step, std::span<const TensorInfo> tensors,
                             std::span<const MutableRange> ranges, int threads, Stop stop) {
  auto manifest = read_manifest(store, step);
  if (!manifest) return manifest;
  if (const auto same = check_model(store, *manifest, tensors, true); !same) return tl::unexpected(same.error());
  const RangesOfTensors wanted(*manifest, ranges);
  Reading reading(store, *manifest, threads, stop);
  std::vector<size_t> touched;
  for (size_t i = 0; i < manifest->shards.size(); ++i) {
    const auto& of_shard = reading.ranges(i);
    if (std::ranges::any_of(of_shard, [&](const TensorRange& range) { return wanted.touch(range); })) touched.push_back(i);
  }
  std::vector<Scratch> buffers(static_cast<size_t>(reading.threads()));
  const auto done = in_parallel(touched.size(), reading.threads(), [&](size_t i, int thread) -> Result<void> {
    const auto bytes =
        unpack_whole(reading, manifest->shards[touched[i]], touched[i], thread, buffers[static_cast<size_t>(thread)]);
    if (!bytes) return tl::unexpected(bytes.error());
    const std::byte* from = bytes->data();
    for (const TensorRange& range : reading.ranges(touched[i])) wanted.fill(range, std::exchange(from, from + range.bytes));
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  return manifest;
}

}  // namespace holdfast::storage
