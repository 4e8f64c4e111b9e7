// Directives are derived from the state, never queued: a lost one is there again at the next look.
#include <fmt/format.h>

#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

JobSpec spec_for_workers(const JobMembership& job, int64_t replicas) {
  JobSpec spec = job.spec;
  spec.replicas = replicas;
  spec.shard = job.shard_now();
  return spec;
}

Directive to_join(const JobMembership& job, int rank) {
  Directive directive;
  directive.kind = DirectiveKind::kJoin;
  directive.generation = job.current.number;
  directive.reason = job.reason;
  directive.spec = spec_for_workers(job, job.replicas_now());
  directive.rank = rank;
  directive.members = job.current.members;
  directive.secret = job.current.secret;
  directive.source = job.current.source;
  auto began = job.began_at.end();
  for (size_t count = 0; count < kBeganMax && began != job.began_at.begin(); ++count) --began;
  for (; began != job.began_at.end(); ++began) directive.began.push_back({began->first, began->second});
  return directive;
}

Directive to_yield(const JobMembership& job, const Participant& p) {
  Directive directive;
  directive.kind = DirectiveKind::kYield;
  directive.generation = job.current.number;
  directive.reason = job.yield_reason;
  directive.checkpoint = job.yield_checkpoint;
  directive.released = is_leaving(p);
  return directive;
}

Directive to_fence(const JobMembership& job, const std::string& reason) {
  Directive directive;
  directive.kind = DirectiveKind::kFence;
  directive.generation = job.current.number;
  directive.reason = reason;
  return directive;
}

Directive to_prepare(const JobMembership& job) {
  Directive directive;
  directive.kind = DirectiveKind::kPrepare;
  directive.generation = job.current.number;
  directive.reason = "to join the next generation";
  directive.spec = spec_for_workers(job, job.replicas_wanted());
  return directive;
}

Directive of_member(const JobMembership& job, const Participant& p, int rank) {
  switch (job.stage) {
    case Stage::kRunning:
      return to_join(job, rank);
    case Stage::kYielding:
      return to_yield(job, p);
    case Stage::kForming:
      break;
  }
  // It dropped the job, which the database did not know: it has to begin anew before there is anything to fence.
  if (p.status.phase == Phase::kIdle && !p.unheard) return to_prepare(job);
  // A member that yielded is prepared already; the fence asks nothing more of it, and fences those that did not get so far.
  return to_fence(job, fmt::format("generation {} is over{}{}", job.current.number, job.why.empty() ? "" : ": ",
                                   p.left_out        ? "it was formed anew without this worker"
                                   : job.why.empty() ? ""
                                                     : job.why[0]));
}

// The two below name everything that the functions above and directive_for look at.
JobStanding standing_of(const JobMembership& job) {
  JobStanding standing{job.stage, job.current.number, is_outrun(job), false, {}, job.shard, job.replicas};
  if (job.stage == Stage::kRunning) standing.words = job.reason;
  if (job.stage == Stage::kForming && !job.why.empty()) standing.words = job.why[0];
  if (job.stage == Stage::kYielding) {
    standing.words = job.yield_reason;
    standing.checkpoint = job.yield_checkpoint;
  }
  return standing;
}

Standing standing_of(const JobMembership& job, const Participant& p) {
  Standing standing;
  standing.member = is_member(job, p);
  standing.active = !standing.member && p.status.phase == Phase::kActive;
  standing.blank = standing.member && p.status.phase == Phase::kIdle && !p.unheard;
  standing.left_out = standing.member && p.left_out;
  standing.released = standing.member && job.stage == Stage::kYielding && is_leaving(p);
  standing.question = p.question;
  return standing;
}

}  // namespace

Directive directive_for(const JobMembership& job, const std::string& worker) {
  const auto found = job.participants.find(worker);
  if (found == job.participants.end()) return Directive{};
  const Participant& p = found->second;
  Directive directive;
  if (is_member(job, p)) {
    directive = of_member(job, p, rank_of(job, p));
  } else if (p.status.phase == Phase::kActive) {  // it was left out and has not noticed
    directive = to_fence(job, is_outrun(job) ? "the service's database is older than this generation: another one forms"
                                             : "the job went on without this worker");
  } else {
    directive = to_prepare(job);
  }
  directive.job = job.job;
  directive.job_born = job.born;
  directive.question = p.question;
  return directive;
}

std::vector<std::string> workers_to_notify(JobMembership& job) {
  const JobStanding of_job = standing_of(job);
  const bool all = job.standing != of_job;
  job.standing = of_job;
  std::vector<std::string> changed;
  for (auto& [worker, p] : job.participants) {
    const Standing standing = standing_of(job, p);
    if (!all && p.standing == standing) continue;
    p.standing = standing;
    changed.push_back(worker);
  }
  return changed;
}

}  // namespace holdfast::rendezvous
