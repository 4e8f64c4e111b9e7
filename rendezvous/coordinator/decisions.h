// The one place where decide() is called: its new state is kept, and its effects are made durable in their order.
//
// Thread: the owner.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/registry.h"
#include "rendezvous/coordinator/worker_lives.h"

namespace holdfast::rendezvous {

class Decisions {
 public:
  // All arguments outlive this object. `new_secret` is called once for each generation.
  Decisions(Registry& registry, Journal& journal, WorkerLives& lives, std::function<std::string()> new_secret)
      : registry_(registry), journal_(journal), lives_(lives), new_secret_(std::move(new_secret)) {}

  void apply(Job& job, const Input& input);
  // Gives the worker to the job. kMoreFollow: more workers are given to the same job directly after it, and the job decides
  // with the last of them.
  enum class Batch { kLast, kMoreFollow };
  void assign(Worker& worker, Job& job, Batch batch = Batch::kLast);
  // The sentence about a worker of the job that has too little memory for the job as `spec` has it; "": none has.
  std::string lack_of_memory(const Job& job, const JobSpec& spec) const;
  int64_t made() const { return made_; }  // decisions so far, each over all participants of a job

 private:
  friend struct EffectWriter;
  void choose_shard_with(const Worker& joining, Job& job);
  void free_worker(const Freed& freed, const Job& job);
  void outlive(const Outlived& silent, int64_t last_generation);

  Registry& registry_;
  Journal& journal_;
  WorkerLives& lives_;
  std::function<std::string()> new_secret_;
  int64_t made_ = 0;
};

}  // namespace holdfast::rendezvous
