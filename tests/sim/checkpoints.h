// Checkpoints as rank 0 writes them, or all ranks of a divided state: worker/checkpoints/checkpointing.cpp without its threads,
// and the disk that all workers share.
//
// A manifest appears on the disk whole or not at all, when its write ends; of a divided state when rank 0 has found the parts
// of all ranks. Between that and the record's arrival at the service the writer may die, be fenced, or belong to the past. (A
// real worker does not send a record of which it can tell itself that its history was given up. This one sends it: the service
// must not rely on that.)
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/protocol/messages.h"
#include "tests/sim/surroundings.h"
#include "tests/sim/training/model_state.h"

namespace holdfast::sim {

class Process;

class CheckpointDisk {
 public:
  struct Manifest {
    ModelState state;
    int64_t generation = 0;
  };
  // A rank's part of a divided state's checkpoint.
  struct Part {
    int64_t generation = 0;
    std::string hash;  // of the whole state
    int rank = 0;
    auto operator<=>(const Part&) const = default;
  };
  bool failing = false, slow = false;

  const Manifest* find(const std::string& job, int64_t step) const;
  // False: a writer of a later generation was there before (storage/checkpoint_write.cpp refuses it).
  bool put(const std::string& job, const Manifest& manifest);
  void put_part(const std::string& job, int64_t step, const Part& part) { parts_[job][step].insert(part); }
  bool has_part(const std::string& job, int64_t step, const Part& part) const;
  void remove(const std::string& job, int64_t step) { jobs_[job].erase(step); }
  std::vector<int64_t> steps(const std::string& job) const;

 private:
  std::map<std::string, std::map<int64_t, Manifest>> jobs_;
  std::map<std::string, std::map<int64_t, std::set<Part>>> parts_;
};

// The part of a state that a rank writes: of one that is not divided rank 0 alone writes, and all of it.
struct Writer {
  int rank = 0, of = 1;
};

class Checkpoints {
 public:
  Checkpoints(Surroundings& around, Process& process) : around_(around), process_(process) {}

  void open(const std::string& job, int64_t keep_last);
  void drop();  // the job is released: what is under way comes to nothing
  void enter_generation(int64_t generation);
  bool can_write() const { return !at_work_; }
  void start(const ModelState& state, const Writer& writer);
  // The later generation that has written the checkpoint of `step`, so that this one cannot; 0: there is none.
  int64_t superseded_by(int64_t step) const { return refused_.contains(step) ? refused_.at(step) : 0; }
  void register_again();  // the newest that was registered: the service has lost it
  // `done` with the hash once it is registered, or the part of another rank than 0 is written, or with "" when it cannot be or
  // `given_up` says so; asked every 50 ms.
  void write_now(const ModelState& state, const Writer& writer, std::function<bool()> given_up,
                 std::function<void(const std::string&)> done);

 private:
  struct Write {
    ModelState state;
    int64_t generation = 0;
    Writer writer;
    bool has_manifest = false;
  };
  bool submit(const ModelState& state, const Writer& writer);
  void write();
  void remember(const Write& written);
  bool has_all_parts(const Write& write) const;
  bool lacks_parts_for_good(const Write& write) const;
  // False: a later generation has written this step.
  bool put_manifest(Write& write);
  void finish_write(const Write& written);
  void registration_ended();
  void register_record(const Write& written, std::vector<int64_t> removed, std::function<void()> then);
  std::vector<int64_t> apply_retention(int64_t newest);

  Surroundings& around_;
  Process& process_;
  std::string job_;
  int64_t keep_last_ = 0, life_ = 0;
  int64_t generation_ = 0, submitted_ = -1, generation_began_ms_ = 0;
  std::optional<Write> writing_;
  bool at_work_ = false, registering_ = false;
  std::deque<Write> written_;  // not registered yet
  std::optional<Write> newest_registered_;
  std::map<int64_t, std::string> registered_;
  std::map<int64_t, int64_t> refused_;  // step -> the later generation that has written it
};

}  // namespace holdfast::sim
