// Faults on this node: brings them about, and takes back the ones that last.
//
// Promises: a signal goes to no other process than the one that was looked at: a worker's is a holdfast-worker of the
// incarnation that the service named, the service's is a holdfast that serves. Everything held is let go at the end of this
// object's life; only kill -9 of the drill itself leaves a process frozen or a file in the drills folder behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "ops/cli/chaos/plan.h"

namespace holdfast::ops {

// A process by a handle of the kernel (pidfd), which never comes to mean another process.
class Process {
 public:
  Process() = default;
  explicit Process(int64_t pid);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  bool is_open() const { return handle_ >= 0; }
  int64_t pid() const { return pid_; }
  // False: the process is gone, or belongs to another user.
  bool signal(int number) const;
  std::string program() const;                             // "holdfast-worker"; "" when it cannot be seen
  bool has_in_environment(const std::string& text) const;  // "NAME=value"
  bool has_argument(const std::string& text) const;

 private:
  int64_t pid_ = -1;
  int handle_ = -1;
};

// The error says why the process is left alone.
tl::expected<Process, std::string> open_worker(int64_t pid, const std::string& incarnation);
tl::expected<Process, std::string> open_service(int64_t pid);
// The process of this node that listens on `port`.
tl::expected<Process, std::string> find_service(int port);

struct Target {
  std::string worker, incarnation;  // "" for the service
  int64_t pid = -1;
};

class Faults {
 public:
  // `drills`: the folder of worker/drills/drills.h, "" for none. `service_pid`: -1 looks for who listens on `service_port`.
  Faults(std::string drills, int64_t service_pid, int service_port)
      : drills_(std::move(drills)), service_pid_(service_pid), service_port_(service_port) {}
  ~Faults() { let_go_all(); }
  Faults(const Faults&) = delete;

  bool consents(const std::string& worker) const;
  bool is_held(const std::string& worker) const;
  tl::expected<void, std::string> bring_about(FaultKind kind, const Target& target, double hold_s);
  // Takes back the faults that have lasted long enough by now, and says so: "w1 is thawed".
  std::vector<std::string> let_go_due();
  std::vector<std::string> let_go_all();

 private:
  using Clock = std::chrono::steady_clock;
  struct Held {
    FaultKind kind;
    std::string worker;
    Process process;   // of a freeze
    std::string file;  // of the others
    Clock::time_point until;
  };
  static std::string let_go(const Held& held);
  std::string file_of(const std::string& worker, FaultKind kind) const;
  tl::expected<Process, std::string> service() const;

  std::string drills_;
  int64_t service_pid_;
  int service_port_;
  std::vector<Held> held_;
};

}  // namespace holdfast::ops
