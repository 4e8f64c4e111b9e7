// A job's checkpoints are where its spec says: kept by the service, or in a folder that this machine must see too.
#include "ops/cli/checkpoint_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ops/cli/command/api.h"
#include "rendezvous/client/service_store.h"
#include "storage/open_store.h"
#include "storage/places/place.h"

namespace holdfast::ops {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// ".../step-0000000060" is the step 60 of the folder above it.
std::optional<int64_t> step_of_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("step-") ? number(std::string_view(name).substr(5)) : std::nullopt;
}

std::optional<CheckpointPlace> in_folder(const std::string& named) {
  fs::path path = named.starts_with("file://") ? named.substr(7) : named;
  if (!path.has_filename()) path = path.parent_path();
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return std::nullopt;
  path = fs::absolute(path);
  CheckpointPlace place;
  place.step = step_of_folder(path);
  if (place.step) path = path.parent_path();
  place.store = value_of(storage::open_store(path.string(), ""));
  return place;
}

// "@latest" is what no step means, too. Settings of a place in S3 stand behind it.
std::string without_latest(std::string named) {
  constexpr std::string_view kLatest = "@latest";
  const size_t end = std::min(storage::is_s3(named) ? named.find('?') : named.size(), named.size());
  if (std::string_view(named).substr(0, end).ends_with(kLatest)) named.erase(end - kLatest.size(), kLatest.size());
  return named;
}

CheckpointPlace in_s3(const std::string& named) {
  const auto [place, step] = storage::split_step(named, true);
  return {value_of(storage::open_store(place, "", {.missing = storage::MissingFolder::kFail})), step};
}

// Either may be away, or not on this machine: the other is then all there is.
CheckpointPlace of_two(const std::string& store, const std::string& copy, const std::string& id, const Options& options) {
  const storage::OpenOptions reading{.missing = storage::MissingFolder::kFail,
                                     .service = rendezvous::service_stores(server_of(options), token_of(options))};
  CheckpointPlace place;
  auto first = storage::open_store(store, id, reading), second = storage::open_store(copy, id, reading);
  if (!first && !second) throw failure_of(first.error());
  if (first) place.first = *std::move(first);
  if (second) place.second = *std::move(second);
  auto both = reading;
  both.copy = copy;
  both.tell = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  place.store = value_of(storage::open_store(store, id, both));
  return place;
}

CheckpointPlace of_job(const Options& options, const std::string& name) {
  Api api(options);
  const std::string id = api.job_id(name);
  const Json job = api.get("/v1/jobs/" + id);
  const std::string store = has(job, "spec") ? text_at(job["spec"], "checkpoint_store") : "";
  const std::string copy = has(job, "spec") ? text_at(job["spec"], "checkpoint_copy") : "";
  if (!copy.empty()) return of_two(store, copy, id, options);
  CheckpointPlace place;
  std::error_code ignored;
  const std::string folder = store.starts_with("file://") ? store.substr(7) : store;
  if (!folder.empty() && !storage::is_s3(folder) && !fs::is_directory(folder, ignored)) {
    throw Failure{kBadInput, fmt::format("{} keeps its checkpoints in {}, which is not on this machine: run this where it is",
                                         id, folder)};
  }
  place.store = value_of(storage::open_store(store, id,
                                             {.missing = storage::MissingFolder::kFail,
                                              .service = rendezvous::service_stores(server_of(options), token_of(options))}));
  return place;
}

}  // namespace

Failure failure_of(const storage::Error& error) {
  if (error.code == storage::Error::Code::kCorrupt) {
    return {kJobFailed,
            error.message + "\n`holdfast ckpt verify PLACE` says which steps are whole; PLACE@STEP names one of them."};
  }
  return {error.code == storage::Error::Code::kUnavailable ? kUnreachable : kBadInput, error.message};
}

CheckpointPlace find_checkpoints(const Options& options, const std::string& asked) {
  if (auto place = storage::is_s3(asked) ? std::nullopt : in_folder(asked)) return *std::move(place);
  const std::string named = without_latest(asked);
  if (storage::is_s3(named)) return in_s3(named);
  std::string name = named;
  std::optional<int64_t> step;
  if (const size_t at = named.rfind('@'); at != std::string::npos) {
    step = number(std::string_view(named).substr(at + 1));
    if (!step)
      throw Failure{kBadInput,
                    fmt::format("{}: expected a step after @, such as {}@60, or @latest", named, named.substr(0, at))};
    name = named.substr(0, at);
  }
  std::optional<CheckpointPlace> place = in_folder(name);
  if (!place) {
    if (name.find('/') != std::string::npos) throw Failure{kBadInput, fmt::format("{}: no such folder", name)};
    place = of_job(options, name.starts_with("job:") ? name.substr(4) : name);
  }
  if (step) place->step = step;
  return *std::move(place);
}

std::unique_ptr<storage::ObjectStore> take_place(CheckpointPlace& place, const std::string& which) {
  if (!place.first && !place.second)
    throw Failure{kBadInput, "--place: these checkpoints are in one place: it is for jobs with a checkpoint_copy"};
  const auto is_meant = [&](const std::unique_ptr<storage::ObjectStore>& store, const char* letter) {
    return which == letter || (store && (store->describe() == which || store->describe().starts_with(which + "/")));
  };
  std::unique_ptr<storage::ObjectStore>* meant = is_meant(place.first, "A")    ? &place.first
                                                 : is_meant(place.second, "B") ? &place.second
                                                                               : nullptr;
  if (meant != nullptr && *meant) return std::move(*meant);
  const auto name = [](const std::unique_ptr<storage::ObjectStore>& store) { return store ? store->describe() : "away"; };
  throw Failure{kBadInput, fmt::format("--place {}: choose A ({}) or B ({})", which, name(place.first), name(place.second))};
}

std::vector<int64_t> steps_of(CheckpointPlace& place) {
  std::vector<int64_t> steps = value_of(storage::list_checkpoints(*place.store));
  if (steps.empty()) throw Failure{kBadInput, fmt::format("{} has no checkpoints", place.store->describe())};
  if (place.step && std::ranges::find(steps, *place.step) == steps.end()) {
    throw Failure{kBadInput, fmt::format("{} has no checkpoint of step {}: it has {}", place.store->describe(), *place.step,
                                         fmt::join(steps, ", "))};
  }
  return steps;
}

}  // namespace holdfast::ops
