// The command lines that keep a worker on another host, and end it. Pure.
//
// A worker is kept as follows. On its host it runs apart from the connection, so that a connection that is lost costs nothing;
// a lock is held for as long as it lives, so that there is one of it; and the connection stays until the worker has ended, and
// ends with its exit status. A connection that is made again finds the worker by the lock, or its exit status if it ended
// meanwhile, or starts it again if neither is there, as after a crash of the host. The token goes over standard input, for a
// command line can be read by everybody on a host.
#pragma once

#include <string>
#include <vector>

#include "ops/cli/launch/hosts.h"

namespace holdfast::ops {

struct RemoteWorker {
  std::string key;                   // of its files on the host: letters, digits, '-', '.', '_'
  std::vector<std::string> command;  // of the worker, with no secret in it
};

// The first line that is said when the worker runs: kWorkerStarted or kWorkerFound, and nothing else of a line begins so.
inline constexpr const char* kWorkerStarted = "holdfast: started";
inline constexpr const char* kWorkerFound = "holdfast: found running";
inline constexpr int kSshFailed = 255;     // ssh's own: no connection
inline constexpr int kCannotWork = 2;      // a worker's: it would fail again
inline constexpr int kKilledUnseen = 137;  // it left no exit status

// ssh with `options` of the user's, which win over ours.
std::vector<std::string> keep_command(const std::vector<std::string>& options, const std::string& address,
                                      const RemoteWorker& worker);
// Has the worker finish its step and leave; after 20 s it is killed.
std::vector<std::string> end_command(const std::vector<std::string>& options, const std::string& address,
                                     const RemoteWorker& worker);

// A word for a POSIX shell.
std::string quoted(const std::string& word);

}  // namespace holdfast::ops
