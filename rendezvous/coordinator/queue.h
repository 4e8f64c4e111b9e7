// The queue's part of a job: the job that it comes after, the time at which it may begin, the time that it may run.
//
// Thread: the owner.
#pragma once

#include <string>

#include "rendezvous/coordinator/decisions.h"
#include "rendezvous/coordinator/journal.h"
#include "rendezvous/coordinator/registry.h"

namespace holdfast::rendezvous {

// Whether resume_from names the job that `spec` comes after (its id is `predecessor`) and leaves the step open.
bool resumes_from(const JobSpec& spec, const std::string& predecessor);
// Whether the job waits for the job that it comes after.
inline bool is_held_by_another(const Job& job) {
  return !job.after.empty() && !job.after_done;
}
// The time until the next try of a job that failed, in ms; 0: it does not wait.
int64_t retry_in_ms(const Job& job, int64_t wall_ms);

// The queue's fields of a job as they are kept in the database, the membership's among them; and back.
std::string queueing_text(const Job& job);
void restore_queueing(Job& job, KeptMembership& kept, const std::string& text, Millis now, int64_t wall_ms);

class Queue {
 public:
  // All arguments outlive this object.
  Queue(Registry& registry, Journal& journal, Decisions& decisions)
      : registry_(registry), journal_(journal), decisions_(decisions) {}

  // Releases the jobs whose predecessor has succeeded, and fails those whose predecessor never can.
  void follow_predecessors();
  // Stops a running job whose max_runtime is over.
  void end_overlong(Job& job);
  bool may_begin(const Job& job) const;

 private:
  void begin_after(Job& job, const Job& first);

  Registry& registry_;
  Journal& journal_;
  Decisions& decisions_;
};

}  // namespace holdfast::rendezvous
