// How many files, and so connections, this process may have open.
//
// A shell's usual soft limit is 1024, and a worker holds up to four connections: some 250 workers would use it up, and the next
// one's would not be accepted. The hard limit is the administrator's word; up to it a process may help itself.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::rendezvous {

struct OpenFiles {
  int64_t limit = 0;  // that holds now
  // Why the soft limit could not be raised to the hard one; "" when it was, or was there.
  std::string problem;
};
// To be called at the start of the process: what has been opened does not change by it.
OpenFiles raise_open_files();

inline constexpr int64_t kConnectionsPerWorker = 4;
inline constexpr int64_t kOpenFilesBeside = 100;  // the database, the log, people
// What a service for so many workers has open at most.
constexpr int64_t open_files_for(int64_t workers) {
  return workers * kConnectionsPerWorker + kOpenFilesBeside;
}

}  // namespace holdfast::rendezvous
