// One call of a program: a text on its standard input, its exit status, and the last line that it said.
//
// The program runs in a process group of its own with no file of this process but its three standard ones. When the time is up
// it is killed with its group; what it started in the background and left there lives on, where it has a session of its own.
// Thread: any; blocks until the program has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

namespace holdfast::rendezvous {

struct HookOutcome {
  std::string failure;    // "" where it exited with 0; else why not, with its last line
  std::string last_line;  // of stdout and stderr
};

// `cancelled` ends the wait, as the time does.
HookOutcome run_hook(const std::string& program, const std::string& input, std::chrono::milliseconds patience,
                     const std::atomic<bool>& cancelled);

}  // namespace holdfast::rendezvous
