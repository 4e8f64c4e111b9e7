// One node with one worker: the supervisor above the training process, and the node's links.
//
// The supervisor starts a new life when one ended badly, with the real restart policy, and reports the old one's end;
// it ends itself when the process ended as it was told to. An operator may start it again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/process.h"
#include "tests/sim/surroundings.h"
#include "worker/link/exit_codes.h"
#include "worker/process/restart_policy.h"

namespace holdfast::sim {

class Host {
 public:
  Host(Surroundings& around, std::string name);

  void start();         // the supervisor
  void kill_process();  // SIGKILL to the training process
  void kill_all();      // the supervisor too: nobody reports it
  void terminate();     // SIGTERM to the supervisor
  void freeze();
  void thaw();
  void ended(worker::ExitCode code);  // by the process: it ended by itself

  enum class Link { kSound, kNoSending, kNoReceiving, kNothing };  // to the service
  void set_link(Link link);
  void set_cut_from_peers(bool cut);
  // Its steps take so many times as long.
  void set_slowness(int64_t times);
  int64_t slowness() const { return slowness_; }
  // The state in its memory is altered, the next time that ranks are about to compare theirs; twice in a run at most, for
  // after the third time a job refuses the worker.
  void let_memory_go_bad() { memory_goes_bad_ = ++times_bad_ <= 2; }
  bool memory_goes_bad() { return std::exchange(memory_goes_bad_, false); }
  // The next checkpoint that it reads has wrong bytes for it, and for nobody else.
  void let_reading_go_bad() { reading_goes_bad_ = true; }
  bool reading_goes_bad() { return std::exchange(reading_goes_bad_, false); }
  bool sends() const { return link_ == Link::kSound || link_ == Link::kNoReceiving; }
  bool receives() const { return link_ == Link::kSound || link_ == Link::kNoSending; }
  bool cut_from_peers() const { return cut_from_peers_; }

  // Something keeps this host from answering at once, for `ms` from now.
  void troubled_for(int64_t ms);
  int64_t troubled_until_ms() const { return troubled_until_ms_; }

  const std::string& name() const { return name_; }
  bool up() const { return up_; }
  bool well() const;
  Process* process() { return up_ && !lives_.empty() && lives_.back()->alive() ? lives_.back().get() : nullptr; }
  Process* life(const std::string& incarnation);

 private:
  void begin_life();
  void next_life(const std::string& how, bool report);

  Surroundings& around_;
  std::string name_;
  bool up_ = false, told_to_end_ = false;
  int64_t supervisor_ = 0;  // counts them: what one planned, the next does not do
  int64_t born_ms_ = 0, troubled_until_ms_ = 0;
  Link link_ = Link::kSound;
  int64_t slowness_ = 1;
  bool memory_goes_bad_ = false, reading_goes_bad_ = false;
  int64_t times_bad_ = 0;
  bool cut_from_peers_ = false;
  worker::RestartPolicy policy_;
  std::vector<std::unique_ptr<Process>> lives_;  // kept: late events find a dead one
};

}  // namespace holdfast::sim
