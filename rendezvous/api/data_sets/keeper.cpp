#include "rendezvous/api/data_sets/keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/data_sets/pinned.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kChunksWaitingMax = 256, kBooksWaitingMax = 64;
constexpr size_t kRemovedAtOnce = 256;
constexpr int64_t kTendMs = 1000, kStaleMs = 3600 * 1000;

}  // namespace

DataKeeper::DataKeeper(Turn& turn, const std::string& data_dir, int64_t limit_bytes, int threads)
    : turn_(turn),
      limit_bytes_(limit_bytes),
      files_(data_dir),
      chunks_pool_(threads, kChunksWaitingMax),
      books_pool_(1, kBooksWaitingMax) {
  const FoundDataSets found = files_.load(turn_.clock.wall_ms());
  for (const std::string& trouble : found.troubles) spdlog::warn("data sets: {}", trouble);
  catalogue_.load(found);
}

std::map<std::string, std::set<std::string>> DataKeeper::jobs_by_digest() const {
  std::map<std::string, std::set<std::string>> jobs;
  for (const auto& [number, job] : turn_.state.jobs()) {
    if (is_ended(job->membership->state)) continue;
    for (const std::string& digest : data_sets_of(job->membership->spec)) jobs[digest].insert(job->id);
  }
  return jobs;
}

void DataKeeper::drop_unused() {
  const auto unnamed = catalogue_.unnamed();
  if (unnamed.empty()) return;
  std::vector<std::string> unused;
  const auto used = jobs_by_digest();
  for (const KeptDataSet* set : unnamed) {
    if (!used.contains(set->digest)) unused.push_back(set->digest);
  }
  // At the start a manifest without a name may be of a push that was cut off between the two: its chunks stay for it.
  for (const std::string& digest : unused) drop(digest, began_);
}

// The manifest goes first: chunks without one are left over, a manifest without its chunks would be a data set that is broken.
void DataKeeper::drop(const std::string& digest, bool with_chunks) {
  std::vector<std::string> going = catalogue_.drop(digest, turn_.clock.wall_ms());
  if (!with_chunks) going.clear();
  catalogue_.chunks().give_up(going);
  on_books<bool>(
      [digest](DataSetFiles& files) -> storage::Result<bool> {
        if (const auto removed = files.remove_set(digest); !removed) return tl::unexpected(removed.error());
        return true;
      },
      [this, going, digest](const storage::Result<bool>& removed) {
        if (!removed) spdlog::warn("the manifest of data set {} stays: {}", digest, removed.error().message);
        remove_chunks(going);
      });
}

void DataKeeper::drop_stale() {
  std::vector<std::string> stale = catalogue_.chunks().stale(turn_.clock.wall_ms());
  if (stale.empty()) return;
  spdlog::info("{} of pushes that were not finished within a day go",
               counted(static_cast<int64_t>(stale.size()), "data chunk"));
  catalogue_.chunks().give_up(stale);
  remove_chunks(std::move(stale));
}

void DataKeeper::remove_chunks(std::vector<std::string> names) {
  std::ranges::move(names, std::back_inserter(going_));
  remove_next();
}

// A few at a time, so that other work comes between.
void DataKeeper::remove_next() {
  if (removing_ || going_.empty()) return;
  removing_ = true;
  const auto end = going_.begin() + static_cast<std::ptrdiff_t>(std::min(going_.size(), kRemovedAtOnce));
  std::vector<std::string> names(going_.begin(), end);
  going_.erase(going_.begin(), end);
  on_books<std::vector<std::string>>(
      [names](DataSetFiles& files) { return files.remove_chunks(names); },
      [this, names](const storage::Result<std::vector<std::string>>& removed) {
        removing_ = false;
        if (!removed || removed->size() < names.size())
          spdlog::warn("some data chunks could not be removed; the next start of the service tries again");
        for (const std::string& name : names) catalogue_.chunks().gone(name);
        remove_next();
      });
}

// Jobs whose data set is not there: the database was put back from a copy, or the folder is gone.
void DataKeeper::complain_of_lacking() {
  for (const auto& [digest, jobs] : jobs_by_digest()) {
    if (catalogue_.find_digest(digest) != nullptr) continue;
    for (const std::string& job : jobs)
      turn_.state.journal().record({"data_set_missing", no_such_data_set(catalogue_, digest), job});
  }
}

void DataKeeper::tend() {
  const int64_t now_ms = turn_.clock.steady_ms();
  if (began_ && now_ms < tended_ms_ + kTendMs) return;
  tended_ms_ = now_ms;
  drop_unused();
  if (!began_ || now_ms >= dropped_stale_ms_ + kStaleMs) {
    dropped_stale_ms_ = now_ms;
    drop_stale();
  }
  if (!std::exchange(began_, true)) complain_of_lacking();
}

void DataKeeper::finish() {
  chunks_pool_.finish();
  books_pool_.finish();
}

}  // namespace holdfast::rendezvous
