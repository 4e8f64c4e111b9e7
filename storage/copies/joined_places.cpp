// Two places as one store, for reading.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "storage/copies/copying.h"
#include "storage/copies/wholeness.h"
#include "storage/failure.h"
#include "storage/manifest.h"

namespace holdfast::storage {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::seconds;

// A place that is away is not asked first again for so long: its own patience may be a minute for each object.
constexpr Seconds kAwayFor{60};

class JoinedPlaces : public ObjectStore {
 public:
  JoinedPlaces(std::unique_ptr<ObjectStore> first, std::unique_ptr<ObjectStore> second, TellOfMending tell)
      : first_(std::move(first)), second_(std::move(second)), tell_(std::move(tell)) {}

  Result<void> put(const std::string& key, std::span<const std::byte> bytes) override { return first_->put(key, bytes); }
  Result<Bytes> get(const std::string& key) override;
  Result<std::vector<std::string>> list(const std::string& prefix) override;
  Result<void> remove(const std::string& key) override { return first_->remove(key); }
  Result<std::vector<std::string>> remove_unfinished(std::span<const std::string> spared) override {
    return first_->remove_unfinished(spared);
  }
  std::string describe() const override { return first_->describe() + " (copy in " + second_->describe() + ")"; }

 private:
  static int64_t now() { return std::chrono::duration_cast<Seconds>(Clock::now().time_since_epoch()).count(); }
  bool first_is_away() const { return now() < away_until_; }
  void tell(const std::string& text) const {
    if (tell_) tell_(text);
  }
  void mend(const std::string& key, const Bytes& bytes, const Error& why);
  void await_shards(const std::string& key, const Bytes& manifest);
  void note_whole(const std::string& key);

  const std::unique_ptr<ObjectStore> first_, second_;
  const TellOfMending tell_;
  std::atomic<int64_t> away_until_ = 0;
  // Manifests that the first place lacks, by their key, with the shards that were not seen whole there yet: a manifest comes
  // last, for what it names is taken for whole.
  struct Lacking {
    Bytes manifest;
    std::set<std::string> shards;
  };
  std::mutex mutex_;
  std::map<std::string, Lacking> lacking_;
};

void JoinedPlaces::mend(const std::string& key, const Bytes& bytes, const Error& why) {
  const auto put = first_->put(key, bytes);
  if (put) note_whole(key);
  tell(put ? fmt::format("{} was not whole in {} and was mended from {}: {}", key, first_->describe(), second_->describe(),
                         why.message)
           : fmt::format("{} is not whole in {}, was taken from {} and could not be mended: {}; {}", key, first_->describe(),
                         second_->describe(), why.message, put.error().message));
}

void JoinedPlaces::await_shards(const std::string& key, const Bytes& manifest) {
  const auto parsed = parse_manifest(manifest, key, *step_of_manifest(key));
  if (!parsed) return;
  Lacking lacking{manifest, {}};
  for (const ShardInfo& shard : parsed->shards) lacking.shards.insert(shard.key);
  const std::lock_guard lock(mutex_);
  lacking_.try_emplace(key, std::move(lacking));
}

void JoinedPlaces::note_whole(const std::string& key) {
  std::optional<std::pair<std::string, Bytes>> complete;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = lacking_.begin(); at != lacking_.end() && !complete; ++at) {
      if (at->second.shards.erase(key) == 0 || !at->second.shards.empty()) continue;
      complete = {at->first, std::move(at->second.manifest)};
      lacking_.erase(at);
      break;
    }
  }
  if (complete) mend(complete->first, complete->second, {Error::Code::kNotFound, "its shards are there"});
}

Result<Bytes> JoinedPlaces::get(const std::string& key) {
  const bool was_away = first_is_away();
  if (was_away) {
    if (auto copy = get_whole(*second_, key)) return copy;
  }
  auto own = get_whole(*first_, key);
  if (own) {
    note_whole(key);
    return own;
  }
  const Error why = own.error();
  const bool away = why.code == Error::Code::kUnavailable;
  if (away) away_until_ = now() + kAwayFor.count();
  auto copy = get_whole(*second_, key);
  if (copy) {
    if (away) {
      tell(fmt::format("{} was taken from {}, for {} is away: {}", key, second_->describe(), first_->describe(), why.message));
    } else if (!step_of_manifest(key)) {
      mend(key, *copy, why);
    } else {
      await_shards(key, *copy);
    }
    return copy;
  }
  // An object that is nowhere is missing, not damaged: a checkpoint that was removed reads so.
  const bool nowhere = why.code == Error::Code::kNotFound && copy.error().code == Error::Code::kNotFound;
  const bool one_is_away = away || copy.error().code == Error::Code::kUnavailable;
  using enum Error::Code;
  return fail(nowhere       ? kNotFound
              : one_is_away ? kUnavailable
                            : kCorrupt,
              "{}; and its copy: {}", why.message, copy.error().message);
}

Result<std::vector<std::string>> JoinedPlaces::list(const std::string& prefix) {
  auto keys = first_->list(prefix);
  auto copies = second_->list(prefix);
  if (!keys) return copies ? std::move(copies) : std::move(keys);
  if (!copies) return keys;
  keys->insert(keys->end(), copies->begin(), copies->end());
  std::ranges::sort(*keys);
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
  return keys;
}

}  // namespace

std::unique_ptr<ObjectStore> join_places(std::unique_ptr<ObjectStore> first, std::unique_ptr<ObjectStore> second,
                                         TellOfMending tell) {
  return std::make_unique<JoinedPlaces>(std::move(first), std::move(second), std::move(tell));
}

}  // namespace holdfast::storage
