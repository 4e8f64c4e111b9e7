#include "rendezvous/standby/checkpoint_pull.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include "rendezvous/client/service_store.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/membership/state.h"
#include "storage/checkpoint.h"
#include "storage/copies/copying.h"

namespace holdfast::rendezvous {
namespace {

using storage::Error;

constexpr std::chrono::seconds kCallPatience{10};
constexpr std::chrono::seconds kLookBesideDataSets{1};
constexpr int kCatalogueShare = 10;  // one part in so many of the time

}  // namespace

CheckpointPull::CheckpointPull(PullOptions options, Open open) : options_(std::move(options)), open_(std::move(open)) {
  thread_ = std::thread([this] { work(); });
}

void CheckpointPull::end() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

PullSeen CheckpointPull::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void CheckpointPull::note(const std::string& problem) {
  if (stop_) return;
  const std::lock_guard lock(mutex_);
  if (seen_.problem != problem && !problem.empty()) spdlog::warn("checkpoints are not pulled, it is tried again: {}", problem);
  seen_.problem = problem;
}

void CheckpointPull::pause() {
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, std::chrono::milliseconds(options_.look_ms), [this] { return stop_.load(); });
}

void CheckpointPull::work() {
  while (!stop_) {
    try {
      look();
    } catch (const std::exception& error) {
      reading_.reset();
      moment_.reset();
      note(error.what());
    }
    pause();
  }
}

// The catalogue is looked at again after each copy: the newest checkpoint may be another one by then.
void CheckpointPull::look() {
  do {
    take_catalogue();
  } while (!stop_ && pull_one() == Went::kOn);
  if (stop_ || moment_->leader.empty() || leader_is_away_) return;
  if (!data_sets_) {
    data_sets_ =
        std::make_unique<DataSetPull>(DataSetPullOptions{options_.data_dir, options_.token, options_.bytes_per_s, &stop_});
  }
  const int64_t before = data_sets_->pulled_bytes();
  const std::vector<Wanted> lost = missing();  // that cannot be had
  auto looked = std::chrono::steady_clock::now();
  const auto none_came = [&] {
    if (std::chrono::steady_clock::now() - looked < kLookBesideDataSets) return true;
    take_catalogue();
    looked = std::chrono::steady_clock::now();
    return std::ranges::all_of(missing(), [&](const Wanted& wanted) {
      return std::ranges::any_of(lost, [&](const Wanted& one) { return one.job == wanted.job && one.step == wanted.step; });
    });
  };
  const std::string leader = moment_->leader;
  if (const auto pulled = data_sets_->look(leader, none_came); !pulled) note(pulled.error());
  const std::lock_guard lock(mutex_);
  seen_.pulled_bytes += data_sets_->pulled_bytes() - before;
}

void CheckpointPull::take_catalogue() {
  const auto began = std::chrono::steady_clock::now();
  if (moment_ && began < catalogue_until_) return;
  if (!reading_) reading_ = open_();
  const ReadMoment moment = reading_->begin();
  if (moment_ && moment_->same_contents(moment)) return reading_->end();
  const StoreContents contents = reading_->store().load();
  reading_->end();
  moment_ = moment;
  make_folders(contents.jobs);
  std::map<std::string, const JobRow*> jobs;
  for (const JobRow& row : contents.jobs) jobs[row.id] = &row;
  wanted_.clear();
  catalogue_.clear();
  for (const CheckpointRow& row : contents.checkpoints) {  // by job and step
    if (!row.record.store.empty()) continue;
    catalogue_[row.job].insert(row.record.step);
    if (row.unreadable) continue;
    const JobRow& job = *jobs.at(row.job);
    if (!wanted_.empty() && wanted_.back().job == row.job) wanted_.back().newest = false;
    wanted_.push_back({row.job, job.number, row.record.step, row.record.state_hash, is_ended(job_state_from(job.state)), true});
  }
  catalogue_until_ = began + kCatalogueShare * (std::chrono::steady_clock::now() - began);
  std::ranges::sort(wanted_, [](const Wanted& a, const Wanted& b) {
    return std::tuple(a.ended, !a.newest, -a.number, -a.step) < std::tuple(b.ended, !b.newest, -b.number, -b.step);
  });
}

void CheckpointPull::make_folders(const std::vector<JobRow>& jobs) {
  if (!tidy_) {  // a copy that a kill has broken off leaves a part of an object
    std::vector<std::string> ids;
    for (const JobRow& row : jobs) ids.push_back(row.id);
    tidy_objects(options_.data_dir, ids);
    tidy_ = true;
  }
  for (const JobRow& row : jobs) {
    if (is_ended(job_state_from(row.state)) || folders_.contains(row.id)) continue;
    if (const auto made = make_objects_folder(options_.data_dir, row.id); !made) throw StoreError(made.error().message);
    folders_.insert(row.id);
  }
}

bool CheckpointPull::is_here(const Wanted& wanted) {
  const auto known = here_.find({wanted.job, wanted.step});
  if (known != here_.end() && known->second == wanted.state_hash) return true;
  const auto store = open_objects_folder(options_.data_dir, wanted.job);
  const auto manifest = store ? storage::read_manifest(**store, wanted.step) : tl::unexpected(store.error());
  if (!manifest || manifest->state_hash != wanted.state_hash) return false;
  here_[{wanted.job, wanted.step}] = manifest->state_hash;
  return true;
}

std::vector<CheckpointPull::Wanted> CheckpointPull::missing() {
  std::vector<Wanted> lacking;
  for (const Wanted& wanted : wanted_) {
    if (!is_here(wanted)) lacking.push_back(wanted);
  }
  const std::lock_guard lock(mutex_);
  seen_.wanted = static_cast<int64_t>(wanted_.size());
  seen_.there = seen_.wanted - static_cast<int64_t>(lacking.size());
  return lacking;
}

// kDone: nothing is lacking, or nothing can be had now.
CheckpointPull::Went CheckpointPull::pull_one() {
  std::string problem;
  leader_is_away_ = false;
  if (moment_->leader.empty()) return Went::kDone;
  for (const Wanted& next : missing()) {
    if (stop_) return Went::kDone;
    if (const auto made = make_objects_folder(options_.data_dir, next.job); !made) throw StoreError(made.error().message);
    const auto here = open_objects_folder(options_.data_dir, next.job);
    if (!here) throw StoreError(here.error().message);
    const auto there =
        open_service_store(moment_->leader, next.job, options_.token, {.deadline = kCallPatience, .stop = &stop_});
    const auto copied =
        storage::copy_checkpoint(*there, **here, next.step, {.bytes_per_s = options_.bytes_per_s, .stop = &stop_});
    if (copied && copied->manifest.state_hash != next.state_hash) {
      problem = fmt::format("the checkpoint of job {} at step {} has the state hash {} at {}, expected {}, as in the catalogue",
                            next.job, next.step, copied->manifest.state_hash, moment_->leader, next.state_hash);
      continue;
    }
    if (copied) {
      note("");
      remove_old(next.job);
      const std::lock_guard lock(mutex_);
      seen_.pulled_bytes += copied->sent_bytes;
      spdlog::info("the checkpoint of job {} at step {} was pulled from {}: {:.1f} MB", next.job, next.step, moment_->leader,
                   static_cast<double>(copied->sent_bytes) / 1e6);
      return Went::kOn;
    }
    problem = copied.error().message;
    // Another checkpoint may be there: of this one retention has removed an object meanwhile, or its leader lacks it, too.
    const bool of_this_one = copied.error().code == Error::Code::kNotFound || copied.error().code == Error::Code::kCorrupt;
    leader_is_away_ = !of_this_one;
    if (leader_is_away_) break;
  }
  note(problem);
  return Went::kDone;
}

// Retention at the leader removes checkpoints below the newest in the catalogue, and so does this. Newer ones are left: the
// catalogue may have been put back from a copy.
void CheckpointPull::remove_old(const std::string& job) {
  const auto store = open_objects_folder(options_.data_dir, job);
  const auto steps = store ? storage::list_checkpoints(**store) : tl::unexpected(store.error());
  if (!steps) return;
  const std::set<int64_t>& kept = catalogue_.at(job);
  for (const int64_t step : *steps) {
    if (kept.contains(step) || step >= *kept.rbegin()) continue;
    here_.erase({job, step});
    if (const auto removed = storage::remove_checkpoint(**store, step); !removed)
      spdlog::warn("an old checkpoint that was pulled stays: {}", removed.error().message);
  }
  if (const auto removed = storage::remove_orphans(**store, std::vector<int64_t>{}); !removed)
    spdlog::warn("objects of no checkpoint stay in {}: {}", (*store)->describe(), removed.error().message);
}

}  // namespace holdfast::rendezvous
