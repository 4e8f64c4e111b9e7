// The parts of a checkpoint whose state several ranks have between them, until its manifest can be put
// (storage/checkpoint_parts.h).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "storage/checkpoint_parts.h"

namespace holdfast::worker {

struct PartsGathering {
  storage::ObjectStore& store;
  // Waits so long, or until there is news; then says why nobody needs to wait for the parts any more, or nothing.
  std::function<std::optional<std::string>(std::chrono::milliseconds)> wait;
  // A problem that may pass, or a long wait: what to tell people meanwhile.
  std::function<void(const std::string& text)> on_delay;
  // "the part of rank 2": as long as it is not there.
  std::function<void(const std::string& which)> on_missing;

  // The manifest, which is durable; or why there is none: as put_manifest_of says, or, once `wait` has said so, kUnavailable.
  // `own`: the part of this writer, which puts the manifest.
  storage::Result<storage::Manifest> run(const storage::Manifest& manifest, const storage::Part& own) const;
};

}  // namespace holdfast::worker
