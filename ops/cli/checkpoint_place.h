// The place of a checkpoint that a person names: "job:j1@60", "job:j1@latest", "j1", "job-name@60", "/shared/ckpt/j1",
// "/shared/ckpt/j1@60", "s3://bucket/prefix/j1@60".
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ops/cli/command/command.h"
#include "storage/checkpoint.h"

namespace holdfast::ops {

inline constexpr const char* kPlaceHelp =
    "A folder, s3://bucket/prefix/job, or a job: job:ID, an id or a name; @STEP behind it picks one [@latest]";

struct CheckpointPlace {
  std::unique_ptr<storage::ObjectStore> store;
  std::optional<int64_t> step;  // as named
  // Of a job whose checkpoints are in two places (checkpoint_copy), each by itself: then `store` is both. Null: it is not
  // there.
  std::unique_ptr<storage::ObjectStore> first{}, second{};
  bool has_copy() const { return second != nullptr; }
};

// Throws a Failure when there is no such folder or job. A folder wins over a job of the same name.
CheckpointPlace find_checkpoints(const Options& options, const std::string& named);
// The one of a job's two places that is meant: "A" or "B", or as its spec names it. A Failure where the job has none such.
std::unique_ptr<storage::ObjectStore> take_place(CheckpointPlace& place, const std::string& which);
// The steps there, ascending; a Failure when there are none, or not the one that was named.
std::vector<int64_t> steps_of(CheckpointPlace& place);

// `holdfast ckpt mend`
void mend_checkpoints(const Options& options, const std::string& named);

Failure failure_of(const storage::Error& error);
template <typename T>
T value_of(storage::Result<T> result) {
  if (!result) throw failure_of(result.error());
  return *std::move(result);
}

}  // namespace holdfast::ops
