// The service's process: the real coordinator over the store in memory, in turns as rendezvous/api/service.cpp takes them
// (commands, time, the scheduler, commit, and only then the answers), and all that can happen to a process in between.
//
// Killed, it loses its memory and the open transaction; started again, it begins from the store.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"
#include "tests/sim/chance.h"
#include "tests/sim/memory_store.h"

namespace holdfast::sim {

class CheckpointDisk;
class Rules;

struct Poll {
  std::string worker, incarnation, have;
  int64_t wait_ms = 0;
};
struct JobMessage {  // a member's report about its job
  std::string job;
  std::variant<rendezvous::Progress, rendezvous::FaultReport, rendezvous::CheckpointRecord> body;
};
struct StatusMessage {
  std::string worker;
  rendezvous::WorkerStatus status;
};
using Request = std::variant<rendezvous::RegisterRequest, StatusMessage, Poll, rendezvous::WorkerLost, JobMessage>;

struct Response {
  bool unreachable = false;  // no answer, or one of a service that ends
  std::optional<rendezvous::Refusal> refusal;
  std::string tag;                              // to a status: of the directive in force
  std::optional<rendezvous::Directive> change;  // to a poll: the directive that differs from `have`

  static Response lost() { return {.unreachable = true, .refusal = {}, .tag = {}, .change = {}}; }
};
using OnResponse = std::function<void(const Response&)>;

enum class Death { kBeforeCommit, kAfterCommit, kDiskFull };

class ServiceProcess {
 public:
  ServiceProcess(Timeline& time, Chance& chance, const Story& story, MemoryStore& store, Rules& rules,
                 const CheckpointDisk& disk);
  ~ServiceProcess();

  void start();
  void kill(const std::string& how);
  void die_at_next_commit(Death death) { death_ = death; }
  void disarm() { death_.reset(); }
  // From the next start on: as after `holdfast restore`. `sees_disk`: the folder of the checkpoints is on this machine, too.
  void database_was_restored(bool sees_disk) {
    restored_ = true;
    sees_disk_ = sees_disk;
  }
  void freeze() { frozen_ = true; }
  void thaw();
  bool up() const { return coordinator_ != nullptr; }
  bool well() const { return up() && !frozen_; }

  // A request arrives. `reply` is called when its answer leaves, or with `unreachable` when it never will.
  void take(Request request, OnResponse reply);
  // An administrator's wish; dropped when the service is away.
  void command(std::function<void(rendezvous::Coordinator&)> what);
  const rendezvous::Coordinator* coordinator() const { return coordinator_.get(); }

 private:
  struct OpenPoll {
    Poll poll;
    OnResponse reply;
    int64_t deadline_ms;
  };
  void plan_turn(int64_t in_ms);
  void tick_on(int64_t life);
  void compare_with_disk();
  void turn();
  void take_turn();
  Response answer(const Request& request, const OnResponse& reply, bool& later);
  Response answer_job(const JobMessage& message);
  void release_polls();

  Timeline& time_;
  Chance& chance_;
  const Story& story_;
  MemoryStore& store_;
  Rules& rules_;
  const CheckpointDisk& disk_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  int64_t life_ = 0;
  bool frozen_ = false, turn_planned_ = false;
  bool restored_ = false, sees_disk_ = true;  // restored_: until the first commit after it
  std::optional<Death> death_;
  std::deque<std::pair<Request, OnResponse>> queue_;
  std::deque<std::function<void(rendezvous::Coordinator&)>> commands_;
  std::vector<std::pair<OnResponse, Response>> answers_;
  std::vector<OpenPoll> polls_;
  std::set<std::string> fresh_;  // workers whose poll came in this turn
  int64_t ticked_ms_ = -1, secrets_ = 0;
};

}  // namespace holdfast::sim
