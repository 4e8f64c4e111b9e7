// The exit status by which a training process tells its supervisor why it ended; 0 to 2 are also the program's own.
#pragma once

namespace holdfast::worker {

enum class ExitCode : int {
  kDone = 0,           // drained, or its SIGTERM was granted
  kFailed = 1,         // a broken invariant; restarted like a crash
  kConfiguration = 2,  // no retry can help: flags, token, version
  kFenced = 75,        // a newer incarnation took its place, or it was given up; a new one is started
  kNameTaken = 76,     // another live worker has this name
};

}  // namespace holdfast::worker
