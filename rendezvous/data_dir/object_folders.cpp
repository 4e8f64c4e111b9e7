// The folders are directory stores of storage/.
#include "rendezvous/data_dir/object_folders.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "rendezvous/protocol/job_spec.h"
#include "rendezvous/text/time_text.h"
#include "storage/checkpoint.h"
#include "storage/file_system.h"
#include "storage/open_store.h"

namespace holdfast::rendezvous {

using storage::MissingFolder;

namespace {

constexpr std::chrono::seconds kStartPatience{5};  // with a store in S3: the service's start waits for it
constexpr int64_t kClocksDifferMs = 3600'000;

}  // namespace

std::string objects_folder(const std::string& data_dir, const std::string& job) {
  return data_dir + "/checkpoints/" + job;
}

storage::Result<void> make_objects_folder(const std::string& data_dir, const std::string& job) {
  const auto made = storage::open_directory_store(objects_folder(data_dir, job), MissingFolder::kMake);
  if (!made) return tl::unexpected(made.error());
  return {};
}

storage::Result<std::unique_ptr<storage::ObjectStore>> open_objects_folder(const std::string& data_dir,
                                                                           const std::string& job) {
  const std::string folder = objects_folder(data_dir, job);
  auto store =
      storage::open_directory_store(folder, MissingFolder::kFail, storage::posix_file_system(storage::Writing::kInBackground));
  if (!store && store.error().code == storage::Error::Code::kNotFound) {
    return tl::unexpected(storage::Error{
        storage::Error::Code::kUnavailable,
        fmt::format("the folder {} has vanished: is its volume still mounted? It is not made again here", folder)});
  }
  return store;
}

std::vector<StrayFolder> stray_folders(const std::string& data_dir, const std::vector<std::string>& jobs) {
  namespace fs = std::filesystem;
  std::vector<StrayFolder> found;
  std::error_code ignored;
  const std::set<std::string_view> known(jobs.begin(), jobs.end());  // there may be ten thousand jobs and ten thousand folders
  for (const auto& entry : fs::directory_iterator(data_dir + "/checkpoints", ignored)) {
    const std::string job = entry.path().filename().string();
    if (!entry.is_directory(ignored) || known.contains(job)) continue;
    const auto inside = fs::recursive_directory_iterator(entry.path(), ignored);
    const bool empty = std::none_of(fs::begin(inside), fs::end(inside), [](const auto& e) {
      std::error_code unreadable;
      return e.is_regular_file(unreadable);
    });
    found.push_back({job, empty});
  }
  std::ranges::sort(found, {}, &StrayFolder::job);
  return found;
}

namespace {

// Whether a job of this spec wrote what has `written` in its manifest. Workers never hear of what concerns the service alone,
// and they and the service settle some fields only while the job runs; a release may know fields that another does not.
bool is_of_same_training(const nlohmann::json& written, const JobSpec& spec) {
  static constexpr std::string_view kSettledLater[] = {"shard", "replicas", "epochs", "total_steps", "warmup_steps"};
  if (!written.is_object() || !written.contains("train_data_path")) return false;
  const nlohmann::json own = to_json_for_workers(spec);
  for (const auto& [name, value] : own.items()) {
    const bool counts = std::ranges::find(kSettledLater, name) == std::end(kSettledLater) && written.contains(name);
    if (counts && written[name] != value) return false;
  }
  return true;
}

}  // namespace

std::vector<CheckpointRecord> unknown_checkpoints(const std::string& data_dir, const std::string& job, const JobSpec& spec,
                                                  int64_t born, const std::vector<int64_t>& known) {
  const std::string& store = spec.checkpoint_store;
  const auto oldest = time_text(std::max<int64_t>(0, born - kClocksDifferMs));
  const auto folder = store.empty()
                          ? open_objects_folder(data_dir, job)
                          : storage::open_store(store, job, {.missing = MissingFolder::kFail, .deadline = kStartPatience});
  if (!folder) return {};
  const auto steps = storage::list_checkpoints(**folder);
  std::vector<CheckpointRecord> found;
  for (const int64_t step : steps.value_or(std::vector<int64_t>{})) {
    if (std::ranges::find(known, step) != known.end()) continue;
    const auto manifest = storage::read_manifest(**folder, step);
    if (!manifest) continue;
    if (manifest->job != job || !is_of_same_training(manifest->spec, spec) || manifest->created_at < oldest) {
      spdlog::warn("the checkpoint of step {} in {} is not of this job {}, but of another of that id: it is left alone", step,
                   (*folder)->describe(), job);
      continue;
    }
    CheckpointRecord& record = found.emplace_back();
    record.generation = record.state_generation = manifest->generation;
    record.step = step;
    record.store = store;
    record.state_hash = manifest->state_hash;
    record.created_at = manifest->created_at;
    record.raw_bytes = manifest->raw_bytes();
    record.stored_bytes = manifest->stored_bytes();
    record.shards = static_cast<int64_t>(manifest->shards.size());
  }
  return found;
}

std::vector<int64_t> absent_checkpoints(const std::string& data_dir, const std::string& job,
                                        const std::vector<int64_t>& steps) {
  const auto folder = open_objects_folder(data_dir, job);
  const auto there = folder ? storage::list_checkpoints(**folder) : tl::unexpected(folder.error());
  std::vector<int64_t> absent = steps;
  if (there) std::erase_if(absent, [&](int64_t step) { return std::ranges::binary_search(*there, step); });
  return absent;
}

void tidy_objects(const std::string& data_dir, const std::vector<std::string>& jobs) {
  for (const std::string& job : jobs) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(objects_folder(data_dir, job), ignored)) continue;
    const auto store = open_objects_folder(data_dir, job);
    const auto removed = store ? (*store)->remove_unfinished({}) : tl::unexpected(store.error());
    if (!removed) {
      spdlog::warn("what was left unfinished in {} stays: {}", objects_folder(data_dir, job), removed.error().message);
    } else if (!removed->empty()) {
      spdlog::info("removed {} unfinished objects of job {}", removed->size(), job);
    }
  }
}

}  // namespace holdfast::rendezvous
