// An end of a pipe between the supervisor and the process that trains.
#pragma once

#include <unistd.h>

namespace holdfast::worker {

// Closes it if it is open, and remembers that: fd is -1 afterwards. Safe between fork and exec.
inline void close_once(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace holdfast::worker
