// The limit on open files, and so on connections, of this process.
//
// A shell's usual soft limit is 1024, and a worker holds up to four connections. Some 250 workers would use it up, and the
// service could not accept the next worker. The administrator sets the hard limit; a process may raise its soft limit to it.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::rendezvous {

struct OpenFiles {
  int64_t limit = 0;  // in force now, in files
  // Why the soft limit could not be raised to the hard limit; "": the two are equal now.
  std::string problem;
};
// Raises the soft limit to the hard limit. Call it at the start of the process. Files that are open already are not affected.
OpenFiles raise_open_files();

inline constexpr int64_t kConnectionsPerWorker = 4;
inline constexpr int64_t kOpenFilesBeside = 100;  // for the database, the log and people's connections
// The largest number of files that a service for `workers` workers has open.
constexpr int64_t open_files_for(int64_t workers) {
  return workers * kConnectionsPerWorker + kOpenFilesBeside;
}

}  // namespace holdfast::rendezvous
