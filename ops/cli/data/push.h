// `holdfast data push`: files become a data set that the service keeps.
//
// Promises: each file is read once for its chunks, memory does not grow with it, and only chunks that the service lacks are
// sent, so a push that was interrupted goes on when it is started again. A file that changes meanwhile ends the push. The name
// means the new data set only when the service has all of it.
// Thread: one; sending has threads of its own.
#pragma once

#include <functional>
#include <string>

#include "ops/cli/command/command.h"
#include "ops/cli/data/files_to_push.h"
#include "ops/cli/data/progress.h"
#include "rendezvous/protocol/data_set.h"

namespace holdfast::ops {

struct PushReport {
  rendezvous::DataManifest manifest;
  std::string digest;
  int64_t sent_bytes = 0;
  int64_t vocab_size = 0;            // as info.json says; 0: it does not
  std::vector<std::string> notes{};  // sentences about files that are pushed, but are not what their names say
};

// Throws a Failure.
PushReport push(const Options& options, const FilesToPush& files, const std::string& name,
                const std::function<void(const PushProgress&)>& on_progress);

}  // namespace holdfast::ops
