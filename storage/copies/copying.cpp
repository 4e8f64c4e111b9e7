#include "storage/copies/copying.h"

#include <algorithm>
#include <set>
#include <thread>

#include "storage/copies/wholeness.h"
#include "storage/failure.h"
#include "storage/manifest.h"

namespace holdfast::storage {
namespace {

using Clock = std::chrono::steady_clock;

Result<void> check_stop(Stop stop, int64_t step) {
  if (stop == nullptr || !*stop) return {};
  return fail(Error::Code::kUnavailable, "copying the checkpoint at step {} was stopped", step);
}

// Keeps what is sent to a rate on average: after each shard it waits until so many bytes might have gone.
class Pace {
 public:
  Pace(double bytes_per_s, Stop stop) : bytes_per_s_(bytes_per_s), stop_(stop) {}

  void sent(size_t bytes) {
    if (bytes_per_s_ <= 0) return;
    bytes_ += static_cast<double>(bytes);
    const auto until =
        begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bytes_ / bytes_per_s_));
    constexpr std::chrono::milliseconds kPiece{100};  // it looks at `stop` this often
    while (Clock::now() < until && (stop_ == nullptr || !*stop_))
      std::this_thread::sleep_for(std::min<Clock::duration>(until - Clock::now(), kPiece));
  }

 private:
  const double bytes_per_s_;
  const Stop stop_;
  const Clock::time_point begin_ = Clock::now();
  double bytes_ = 0;
};

Result<Manifest> manifest_in(ObjectStore& store, const Bytes& bytes, int64_t step) {
  return parse_manifest(bytes, object_name(store, manifest_key(step)), step);
}

// Not whole, but the place could be asked.
bool is_flaw(const Error& error) {
  return error.code == Error::Code::kNotFound || error.code == Error::Code::kCorrupt;
}

class Mender {
 public:
  Mender(ObjectStore& first, ObjectStore& second) : first_(first), second_(second) {}

  // The object's bytes, once they are whole in both places; nullopt: they are whole in neither.
  Result<std::optional<Bytes>> mend(const std::string& key) {
    auto a = get_whole(first_, key), b = get_whole(second_, key);
    if (!a && !is_flaw(a.error())) return tl::unexpected(a.error());
    if (!b && !is_flaw(b.error())) return tl::unexpected(b.error());
    if (!a && !b) {
      done.lost.push_back(fmt::format("{}; and {}", a.error().message, b.error().message));
      return std::optional<Bytes>();
    }
    if (a && b) return std::optional<Bytes>(std::move(*a));
    ObjectStore& flawed = a ? second_ : first_;
    const Error why = a ? b.error() : a.error();
    Bytes bytes = a ? std::move(*a) : std::move(*b);
    if (auto put = flawed.put(key, bytes); !put) return tl::unexpected(put.error());
    done.mended.push_back(fmt::format("{} in {} ({})", key, flawed.describe(), why.message));
    return std::optional<Bytes>(std::move(bytes));
  }

  Mending done;

 private:
  ObjectStore& first_;
  ObjectStore& second_;
};

}  // namespace

Result<CopyOutcome> copy_checkpoint(ObjectStore& from, ObjectStore& to, int64_t step, const CopyOptions& options) {
  const std::string key = manifest_key(step);
  const auto text = get_whole(from, key);
  if (!text) return tl::unexpected(text.error());
  auto manifest = manifest_in(from, *text, step);
  if (!manifest) return tl::unexpected(manifest.error());
  const auto keys = to.list(checkpoint_prefix(step));
  if (!keys) return tl::unexpected(keys.error());
  const std::set<std::string> there(keys->begin(), keys->end());
  CopyOutcome outcome;
  Pace pace(options.bytes_per_s, options.stop);
  for (const ShardInfo& shard : manifest->shards) {
    if (auto goes_on = check_stop(options.stop, step); !goes_on) return tl::unexpected(goes_on.error());
    if (there.contains(shard.key) && get_whole(to, shard.key)) {
      ++outcome.kept_shards;
      continue;
    }
    const auto bytes = get_whole(from, shard.key);
    if (!bytes) return tl::unexpected(bytes.error());
    if (auto put = to.put(shard.key, *bytes); !put) return tl::unexpected(put.error());
    ++outcome.sent_shards;
    outcome.sent_bytes += static_cast<int64_t>(bytes->size());
    pace.sent(bytes->size());
  }
  if (auto goes_on = check_stop(options.stop, step); !goes_on) return tl::unexpected(goes_on.error());
  if (auto put = to.put(key, *text); !put) return tl::unexpected(put.error());
  outcome.manifest = *std::move(manifest);
  return outcome;
}

Result<Mending> mend_checkpoint(ObjectStore& first, ObjectStore& second, int64_t step) {
  Mender mender(first, second);
  // The manifest last, where it is missing: a place has it when it has all that it names.
  const std::string key = manifest_key(step);
  auto a = get_whole(first, key);
  auto b = get_whole(second, key);
  if (!a && !is_flaw(a.error())) return tl::unexpected(a.error());
  if (!b && !is_flaw(b.error())) return tl::unexpected(b.error());
  if (!a && !b) return fail(b.error().code, "{}; and {}", a.error().message, b.error().message);
  const auto manifest = a ? manifest_in(first, *a, step) : manifest_in(second, *b, step);
  if (!manifest) return tl::unexpected(manifest.error());
  for (const ShardInfo& shard : manifest->shards) {
    if (auto mended = mender.mend(shard.key); !mended) return tl::unexpected(mended.error());
  }
  if (!mender.done.lost.empty()) return std::move(mender.done);
  // Two manifests that read and differ are of two writes of the step: the first place's counts.
  if (a && b && *a != *b) {
    if (auto put = second.put(key, *a); !put) return tl::unexpected(put.error());
    mender.done.mended.push_back(fmt::format("{} in {} (it was that of another write of the step)", key, second.describe()));
  } else if (auto mended = mender.mend(key); !mended) {
    return tl::unexpected(mended.error());
  }
  return std::move(mender.done);
}

}  // namespace holdfast::storage
