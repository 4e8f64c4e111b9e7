// Reports that decide nothing: nearly all of them, one a second from every worker.
//
// Promises: what is taken in here costs the same in a job of any size, and leaves it as decide() would, but that nothing is
// done which is due by time alone; ticks see to that. In doubt a report is decide()'s: only those are taken whose phase is one
// of the three in which a worker waits or trains, and which differ from the last one in nothing that a decision looks at.
#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

// The status as on_reported keeps it.
WorkerStatus kept_of(const JobMembership& job, const Participant& p, const WorkerStatus& said) {
  WorkerStatus kept = speaks_of(job, said) ? said : WorkerStatus{};
  kept.leaving = p.status.leaving || said.leaving;
  return kept;
}

// Idle and preparing come to the same before the first generation that it takes part in.
bool is_still_preparing(const JobMembership& job, const Participant& p, const WorkerStatus& now) {
  const Phase before = p.status.phase;
  const bool as_before = now.phase == before && (before == Phase::kIdle || before == Phase::kPreparing);
  const bool begins = before == Phase::kIdle && now.phase == Phase::kPreparing;
  if (!as_before && !begins) return false;
  return p.status.step == now.step && p.status.state_generation == now.state_generation && !is_member(job, p);
}

bool is_still_prepared(const JobMembership& job, const Participant& p, const WorkerStatus& now) {
  if (now.phase != Phase::kPrepared || p.status != now || !is_prepared(job, p) || p.prepared_ms < 0) return false;
  if (p.left_out || p.gone || p.suspected_ms >= 0) return false;
  if (references_hold(job) && !misfit(job, p).empty()) return false;
  return job.stage != Stage::kRunning || !is_member(job, p);
}

// Only its step grew.
bool is_still_active(const JobMembership& job, const Participant& p, const WorkerStatus& now) {
  const auto trains = [&](const WorkerStatus& status) {
    return status.phase == Phase::kActive && status.generation == job.current.number;
  };
  return job.stage != Stage::kForming && trains(p.status) && trains(now) && is_member(job, p);
}

}  // namespace

bool take_heartbeat(JobMembership& job, const WorkerReported& report, Millis now) {
  const auto found = job.participants.find(report.worker);
  if (found == job.participants.end()) return false;
  Participant& p = found->second;
  if (p.member.incarnation != report.status.incarnation || p.unheard) return false;
  WorkerStatus kept = kept_of(job, p, report.status);
  if (kept.leaving != p.status.leaving) return false;
  if (!is_still_active(job, p, kept) && !is_still_prepared(job, p, kept) && !is_still_preparing(job, p, kept)) return false;
  p.heard_ms = now;
  p.asked_ms = -1;  // it has answered
  p.status = std::move(kept);
  return true;
}

}  // namespace holdfast::rendezvous
