// The place of a checkpoint that a person names: "job:j1@60", "j1", "job-name@60", "/shared/ckpt/j1", "/shared/ckpt/j1@60".
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ops/cli/command/command.h"
#include "storage/checkpoint.h"

namespace holdfast::ops {

inline constexpr const char* kPlaceHelp = "A folder, or a job: job:ID, an id or a name; @STEP behind it picks one";

struct CheckpointPlace {
  std::unique_ptr<storage::ObjectStore> store;
  std::optional<int64_t> step;  // as named
};

// Throws a Failure when there is no such folder or job. A folder wins over a job of the same name.
CheckpointPlace find_checkpoints(const Options& options, const std::string& named);
// The steps there, ascending; a Failure when there are none, or not the one that was named.
std::vector<int64_t> steps_of(CheckpointPlace& place);

Failure failure_of(const storage::Error& error);
template <typename T>
T value_of(storage::Result<T> result) {
  if (!result) throw failure_of(result.error());
  return *std::move(result);
}

}  // namespace holdfast::ops
