// Workers on other hosts, each kept over a connection of ssh (ssh_command.h).
//
// Promises: a connection that is lost is made again after a pause that grows to half a minute, for as long as this object
// lives; its worker trains on meanwhile. A worker that cannot work there (wrong flags, no program) is not tried again. Whatever
// happens is a note for people. The workers outlive this object; leave_together() sees them off. Thread: made, asked and ended
// by one thread; a thread of its own looks after the connections.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/cli/launch/child_process.h"
#include "ops/cli/launch/ssh_command.h"

namespace holdfast::ops {

struct SshSettings {
  std::vector<std::string> options;  // of ssh, beside ours
  std::string token;                 // the workers'
};

class SshWorkers {
 public:
  struct Place {
    Seat seat;
    RemoteWorker worker;
  };
  SshWorkers(SshSettings settings, const std::vector<Place>& places);
  ~SshWorkers();  // ends the connections, and not the workers
  SshWorkers(const SshWorkers&) = delete;

  // Sentences for people, of what happened since the last call.
  std::vector<std::string> take_notes();
  // Every worker was refused by its host, or refuses to work there.
  bool is_hopeless() const;
  // Ends the connections at once, for a program that ends; from any thread.
  void disconnect();
  // After the job's end: waits until the workers have left, has those leave that do not, and tells of those that it cannot
  // reach. True: every one has ended.
  bool leave_together();

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { kAway, kConnecting, kKept, kEnded, kRefused };
  struct Kept {
    Place place;
    State state = State::kAway;
    std::unique_ptr<ChildProcess> ssh = nullptr;
    std::string last_words = "", told = "";  // the newest line that was heard, and the last trouble that was told
    Clock::time_point again = {}, born = {};
    std::chrono::milliseconds pause{1000};
  };

  void look_after();
  void look_at(Kept& kept);
  void hear(Kept& kept);
  void end_of_connection(Kept& kept, int status);
  void note(const Kept& kept, const std::string& what);  // the caller holds the lock
  void tell_trouble(Kept& kept, const std::string& what);
  bool all_over() const;
  void tell_to_leave();

  const SshSettings settings_;
  mutable std::mutex mutex_;  // guards all below but the thread
  std::vector<Kept> kept_;
  std::vector<std::string> notes_;
  bool over_ = false, job_over_ = false;
  std::thread thread_;
};

}  // namespace holdfast::ops
