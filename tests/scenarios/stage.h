// The stage of a story: the real coordinator over SQLite, a clock that the story moves, and workers that do as they are told.
//
// After each command its immediate consequences happen: workers report, get directives, obey, and so on until nobody has
// anything new to report. Each event of the service and each new directive of a worker becomes a line.
// Promises: the same commands give the same lines. Incarnations are NAME-1, NAME-2 …; secrets are numbers that count up.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"

namespace holdfast::scenarios {

class HandClock : public rendezvous::Clock {
 public:
  int64_t steady_ms() const override { return ms; }
  int64_t wall_ms() const override { return 1'700'000'000'000 + ms; }
  int64_t ms = 0;
};

// A worker, its supervisor, and the state that it holds.
struct Actor {
  enum class Life : uint8_t { kWell, kFrozen, kDead };
  std::string name, node;
  int life_number = 0;
  Life life = Life::kDead;
  rendezvous::WorkerStatus status;
  bool news = true;            // the worker has something to report
  rendezvous::Directive told;  // the last directive
  bool was_told = false;       // `told` came in this life, from this service or the one before
  int64_t ready_ms = 0;        // while preparing: the time at which it will be prepared
  std::string incarnation() const { return name + "-" + std::to_string(life_number); }
};

// A job as its workers see it.
struct Run {
  std::string job;
  int64_t total_steps = 0;
  std::vector<rendezvous::Member> ring;  // the members of the newest generation that any worker joined
  int64_t generation = 0;
  int64_t reported = 0;  // the newest step that the service has confirmed
  bool has(const Actor& actor) const {
    return actor.life == Actor::Life::kWell && actor.status.phase == rendezvous::Phase::kActive && actor.status.job == job &&
           actor.status.generation == generation;
  }
};

class Stage {
 public:
  explicit Stage(std::string folder);  // empties the folder, then keeps the database in it
  ~Stage();

  // Carries out one command of a story (commands.cpp has the list). Throws std::invalid_argument for an unknown command.
  void perform(const std::string& command);
  // The lines since the last call.
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }

 private:
  using Words = std::vector<std::string>;

  // --- commands.cpp
  bool about_time(const Words& words);
  bool about_job(const Words& words);
  bool about_service(const Words& words);
  bool about_worker(const Words& words);
  void submit(const Words& words);
  void scale(int64_t nodes);
  void begin_life(Actor& actor);
  void kill(Actor& actor, bool reported);
  void break_connection(Actor& witness, const Actor& broken, const std::string& kind);
  void kill_everything();
  void copy_database();
  void put_copy_back();
  Actor& actor(const std::string& name);

  // --- stage.cpp
  void open_service();
  void close_service();
  void advance(int64_t ms);
  void train_to(Run& run, int64_t step);
  void settle();
  void deliver_letters();
  bool finish_preparing(Actor& actor);
  bool speak(Actor& actor);
  bool listen(Actor& actor);
  void enroll(Actor& actor);
  void obey(Actor& actor, const rendezvous::Directive& directive);
  void join(Actor& actor, const rendezvous::Directive& directive);
  void stop_at(Actor& actor, const rendezvous::Directive& directive);
  void tell_progress(Run& run);
  void fail(Run& run);
  void register_checkpoint(const Run& run);
  void write_events();
  void say(const std::string& text);
  void say_refusal(const std::string& who, const rendezvous::Refusal& refusal);
  Run& run_of(const std::string& job);
  Actor* leader(const Run& run);  // rank 0 if the whole ring is there, else null

  std::string folder_;
  HandClock clock_;
  std::unique_ptr<rendezvous::JobStore> store_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;  // null while the service is away
  std::map<std::string, Actor> actors_;
  std::map<std::string, Run> runs_;
  std::string job_;            // the job submitted last, to which commands without a job apply
  std::set<int64_t> corrupt_;  // checkpoints that do not verify
  struct Fault {
    std::string job;
    rendezvous::FaultReport report;
  };
  std::vector<Fault> faults_;
  std::vector<rendezvous::WorkerLost> losses_;
  int64_t last_event_ = 0, secrets_ = 0, next_heartbeat_ms_ = 1000;
  std::vector<std::string> lines_;
};

}  // namespace holdfast::scenarios
