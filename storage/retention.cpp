// Which checkpoints there are, which may go, and how they go: the manifest first, so that a checkpoint is whole or not there.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "storage/checkpoint.h"

namespace holdfast::storage {
namespace {

// "step-0000000060/…" -> 60; nothing for keys that are not of a checkpoint.
std::optional<int64_t> step_of(const std::string& key) {
  constexpr std::string_view kHead = "step-";
  const size_t slash = key.find('/');
  if (!key.starts_with(kHead) || slash == std::string::npos) return std::nullopt;
  int64_t step = 0;
  const auto [end, error] = std::from_chars(key.data() + kHead.size(), key.data() + slash, step);
  if (error != std::errc() || end != key.data() + slash || !key.starts_with(checkpoint_prefix(step))) return std::nullopt;
  return step;
}

}  // namespace

Result<std::vector<int64_t>> list_checkpoints(ObjectStore& store) {
  const auto keys = store.list("step-");
  if (!keys) return tl::unexpected(keys.error());
  std::vector<int64_t> steps;
  for (const std::string& key : *keys) {
    if (const std::optional<int64_t> step = step_of(key); step && key == manifest_key(*step)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

Result<void> remove_checkpoint(ObjectStore& store, int64_t step) {
  if (auto removed = store.remove(manifest_key(step)); !removed) return removed;
  const auto shards = store.list(checkpoint_prefix(step));
  if (!shards) return tl::unexpected(shards.error());
  for (const std::string& key : *shards) {
    if (auto removed = store.remove(key); !removed) return removed;
  }
  return {};
}

std::vector<int64_t> retention_victims(std::span<const int64_t> steps, int64_t keep_last, int64_t newest_verified,
                                       std::span<const int64_t> needed) {
  if (keep_last <= 0) return {};
  std::vector<int64_t> victims;
  for (size_t i = 0; i + static_cast<size_t>(keep_last) < steps.size(); ++i) {
    if (steps[i] < newest_verified && std::ranges::find(needed, steps[i]) == needed.end()) victims.push_back(steps[i]);
  }
  return victims;
}

Retention apply_retention(ObjectStore& store, int64_t keep_last, int64_t newest, int threads, Stop stop,
                          std::span<const int64_t> needed, bool in_background) {
  const auto steps = list_checkpoints(store);
  if (!steps) return {{}, tl::unexpected(steps.error())};
  Retention done;
  const std::vector<int64_t> victims = retention_victims(*steps, keep_last, newest, needed);
  if (victims.empty()) return done;
  if (const auto verified = verify_checkpoint(store, newest, threads, stop, in_background); !verified) {
    return {{}, tl::unexpected(verified.error())};
  }
  for (const int64_t step : victims) {
    const Result<void> removed = remove_checkpoint(store, step);
    if (!removed && done.problem) done.problem = tl::unexpected(removed.error());
    // Without its manifest it is a checkpoint no more, whatever could not be removed of the rest.
    const bool gone = removed || is_absent(store, manifest_key(step));
    if (gone) done.removed.push_back(step);
  }
  return done;
}

Result<void> remove_unfinished_write(ObjectStore& store, int64_t step) {
  const auto there = read_manifest(store, step);
  if (there) return {};
  if (there.error().code != Error::Code::kNotFound) return tl::unexpected(there.error());
  return remove_checkpoint(store, step);
}

Result<std::vector<std::string>> remove_orphans(ObjectStore& store, std::span<const int64_t> steps_in_progress) {
  const auto keys = store.list("step-");
  if (!keys) return tl::unexpected(keys.error());
  std::map<int64_t, std::vector<std::string>> folders;
  for (const std::string& key : *keys) {
    if (const std::optional<int64_t> step = step_of(key)) folders[*step].push_back(key);
  }
  std::vector<std::string> spared;
  for (const int64_t step : steps_in_progress) spared.push_back(checkpoint_prefix(step));
  auto removed = store.remove_unfinished(spared);
  if (!removed) return removed;
  for (const auto& [step, objects] : folders) {
    if (std::ranges::find(steps_in_progress, step) != steps_in_progress.end()) continue;
    const auto manifest = read_manifest(store, step);
    if (!manifest && manifest.error().code == Error::Code::kUnavailable) return tl::unexpected(manifest.error());
    if (!manifest && manifest.error().code != Error::Code::kNotFound) continue;
    std::set<std::string> named{manifest_key(step)};
    if (manifest) {
      for (const ShardInfo& shard : manifest->shards) named.insert(shard.key);
    }
    // Its removal may not be durable yet, and a manifest that comes back must find its shards.
    if (!manifest) {
      if (auto gone = store.remove(manifest_key(step)); !gone) return tl::unexpected(gone.error());
    }
    for (const std::string& key : objects) {
      if (named.contains(key)) continue;
      if (auto gone = store.remove(key); !gone) return tl::unexpected(gone.error());
      removed->push_back(key);
    }
  }
  return removed;
}

}  // namespace holdfast::storage
