#include "rendezvous/membership/held.h"

#include <utility>

namespace holdfast::rendezvous {

HeldMembership begin_membership(const NewJob& job, Millis now) {
  JobMembership m;
  m.job = job.job;
  m.born = job.born;
  m.spec = job.spec;
  m.min_nodes = job.spec.min_nodes;
  m.nodes = job.spec.nodes;
  m.max_nodes = job.spec.max_nodes;
  m.reason = "waiting for workers";
  m.resume = job.resume;
  if (!job.resume.empty()) m.committed_step = job.resume.front().step;
  m.forming_since_ms = now;
  return HeldMembership(std::move(m));
}

HeldMembership restore_membership(KeptMembership kept, const std::vector<KeptWorker>& workers, Millis now) {
  JobMembership m;
  static_cast<KeptMembership&>(m) = std::move(kept);
  m.forming_since_ms = m.formed_ms = now;
  m.counted = true;
  // False where no step was committed since the last fault: the next step is then reported as progress_resumed.
  m.resumed_noted = m.cause != Cause::kFault || (m.stage == Stage::kRunning && m.committed_step > m.current.source.step);
  for (const KeptWorker& worker : workers) {
    Participant p;
    p.member = worker.member;
    p.numerics = worker.numerics;
    p.after_generation = worker.after_generation;
    p.seat = rank_in(m.current, worker.member.worker, worker.member.incarnation);
    p.heard_ms = now;
    p.unheard = true;
    p.wanted = !worker.draining;
    p.unwanted_reason = worker.draining ? "drained" : "";
    m.participants[worker.member.worker] = std::move(p);
  }
  return HeldMembership(std::move(m));
}

std::vector<Effect> decide(HeldMembership& held, const Input& input, Millis now,
                           const std::function<std::string()>& new_secret) {
  Decision decision = decide(std::move(held.state_), input, now, new_secret);
  held.state_ = std::move(decision.state);
  return std::move(decision.effects);
}

bool take_heartbeat(HeldMembership& held, const WorkerReported& report, Millis now) {
  return take_heartbeat(held.state_, report, now);
}

std::vector<std::string> workers_to_notify(HeldMembership& held) {
  return workers_to_notify(held.state_);
}

}  // namespace holdfast::rendezvous
