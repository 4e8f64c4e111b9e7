// What the training process tells its supervisor by its exit status; 0 to 2 are also the program's own.
#pragma once

namespace holdfast::worker {

enum class ExitCode : int {
  kDone = 0,           // drained, or its SIGTERM was granted
  kFailed = 1,         // a broken invariant; restarted like a crash
  kConfiguration = 2,  // will not work however often it is tried: flags, token, version
  kFenced = 75,        // this incarnation is of the past; a new one is started
  kNameTaken = 76,     // another live worker has this name
};

}  // namespace holdfast::worker
