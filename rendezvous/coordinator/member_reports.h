// Reports of a job's members: steps, faults, checkpoints, events.
//
// Refused, and without effect: reports of an incarnation or a generation that is over, and of a rank that may not say this;
// the end of a job whose last checkpoint is not registered ("checkpoint_unknown": rank 0 registers it again).
// Thread: the owner.
#pragma once

#include <string>

#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/refusal.h"
#include "rendezvous/coordinator/registry.h"
#include "rendezvous/coordinator/worker_lives.h"
#include "rendezvous/coordinator/workers.h"

namespace holdfast::rendezvous {

class MemberReports {
 public:
  struct Parts {  // all outlive this object
    Registry& registry;
    Journal& journal;
    WorkerLives& lives;
    Decisions& decisions;
    Workers& workers;
  };
  explicit MemberReports(const Parts& parts);

  OrRefusal<void> record_progress(const std::string& job, const Progress& progress);
  OrRefusal<void> report_fault(const std::string& job, const FaultReport& report);
  // Or, with `copied_at`, that the checkpoint is in its second place.
  OrRefusal<void> register_checkpoint(const std::string& job, const CheckpointRecord& told);
  // Takes note that the checkpoint's manifest is no longer in the store.
  void checkpoint_removed(const std::string& job, int64_t step);
  OrRefusal<void> record_event(const std::string& job, const WorkerEvent& event);

 private:
  OrRefusal<void> note_copy(const std::string& job, const CheckpointRecord& record);
  enum class MaySay { kAnyMember, kRank0 };
  template <typename Message>
  OrRefusal<Job*> need_present(const std::string& id, const Message& message, MaySay who);
  void add_steps(Job& job, const Progress& progress);
  void note_division(Job& job, const Progress& progress);
  void take_late_fault(const std::string& job, const FaultReport& report);
  bool forget_checkpoint(Job& job, int64_t step);

  Registry& registry_;
  Journal& journal_;
  WorkerLives& lives_;
  Decisions& decisions_;
  Workers& workers_;
};

}  // namespace holdfast::rendezvous
