#include "rendezvous/coordinator/member_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "rendezvous/membership/decide.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {

MemberReports::MemberReports(const Parts& parts)
    : registry_(parts.registry),
      journal_(parts.journal),
      lives_(parts.lives),
      decisions_(parts.decisions),
      workers_(parts.workers) {}

// The job, if the sender of the message belongs to its present generation and may send such a message.
template <typename Message>
OrRefusal<Job*> MemberReports::need_present(const std::string& id, const Message& message, MaySay who) {
  Job* job = registry_.find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  auto worker = lives_.need(message.worker, message.incarnation);
  if (!worker) return tl::unexpected(worker.error());
  const JobMembership& m = job->membership;
  if (const auto staleness = stale(m, message.worker, message.incarnation, message.generation, who == MaySay::kRank0))
    return refuse(Refusal::Kind::kStale, staleness->code, staleness->detail);
  workers_.renew_lease(**worker);
  return job;
}

void MemberReports::add_steps(Job& job, const Progress& progress) {
  const JobMembership& m = job.membership;
  // A state in memory may be a step ahead of the last report of its generation's rank 0. Such a step belongs to the last
  // generation that began below it.
  const auto applied_in = [&m](int64_t step) {
    const auto began = std::find_if(m.began_at.rbegin(), m.began_at.rend(), [&](const auto& e) { return e.second < step; });
    return began == m.began_at.rend() ? m.current.number
                                      : std::max(began->first, step <= m.current.source.step ? m.outrun_to : 0);
  };
  std::vector<StepRow> rows;
  for (const StepPoint& point : progress.points) {
    const int64_t by = applied_in(point.step);
    const auto world_size = static_cast<int64_t>(by == m.current.number ? m.current.members.size() : 0);
    rows.push_back({0, registry_.wall_ms(), job.id, by, world_size, point});
    if (point.validation_loss) job.validation_loss = point.validation_loss;
    if (point.refused && point.step > job.membership->committed_step) ++job.refused_steps;
    job.step_time.add(point);
  }
  if (!rows.empty()) journal_.write().add_steps(job.id, rows);
  if (!progress.points.empty()) job.loss = progress.points.back().loss;
  if (!progress.state_hash.empty() && progress.state_hash_step >= job.state_hash_step) {
    job.state_hash = progress.state_hash;
    job.state_hash_step = progress.state_hash_step;
  }
}

// Tells people when parts of a divided state are on fewer workers than were asked for, and when they are no more.
void MemberReports::note_division(Job& job, const Progress& progress) {
  job.division = progress.division;
  job.divided_in = progress.generation;
  if (!progress.division) return;
  const JobMembership& m = job.membership;
  const int64_t copies = progress.division->copies, wanted = m.replicas_now(), to_come = progress.division->bytes_to_come;
  const int64_t told = job.copies_told < 0 ? wanted : job.copies_told;
  if (copies == told) return;
  job.copies_told = copies;
  const std::string each = fmt::format("each part of the state is on {}", counted(copies, "worker"));
  if (copies >= wanted) return journal_.record({"redundancy_restored", each + " again", job.id, "", m.current.number});
  const KnownCheckpoint* newest = newest_checkpoint(m);
  const std::string back = newest == nullptr ? "the beginning" : fmt::format("step {}", newest->step);
  const std::string until = to_come > 0
                                ? fmt::format(" until {:.1f} MB have come to their owners", static_cast<double>(to_come) / 1e6)
                                : ": there are no more";
  journal_.record({"redundancy_reduced",
                   fmt::format("{} at least, {} asked for{}; the loss of {} that {} a part goes back to {}", each, wanted,
                               until, copies == 1 ? "the worker" : "the workers", copies == 1 ? "has" : "have", back),
                   job.id, "", m.current.number});
}

OrRefusal<void> MemberReports::record_progress(const std::string& id, const Progress& progress) {
  auto job = need_present(id, progress, MaySay::kRank0);
  if (!job) return tl::unexpected(job.error());
  const JobMembership& m = (*job)->membership;
  if (is_dormant(m)) {
    // A committed step may be reported late. Steps of a worker that went on after all were freed do not count.
    if (progress.step > m.committed_step) {
      return refuse(Refusal::Kind::kWrongState, "wrong_state",
                    fmt::format("job {} is {} at step {}: what {} computed after that does not count", id,
                                job_state_name(m.state), m.committed_step, progress.worker));
    }
  } else if (progress.finished && !progress.state_hash.empty() && !(*job)->checkpoints.contains(progress.step)) {
    // It was registered before: with a database that was replaced by an older copy since.
    return refuse(Refusal::Kind::kWrongState, "checkpoint_unknown",
                  fmt::format("job {} does not end at step {} before its last checkpoint is registered, and this database has "
                              "none of that step: register it again",
                              id, progress.step));
  }
  // A new step shows that the workers trained on while the service was away.
  if (progress.step > m.committed_step) (*job)->runtime.count_time_away();
  add_steps(**job, progress);
  if (progress.generation == m.current.number) note_division(**job, progress);
  decisions_.apply(**job, ProgressMade{progress});
  for (const StepPoint& point : progress.points) {
    if (!point.shares.empty() && point.step <= m.committed_step) journal_.write().deal_anew(id, point.step, point.shares);
  }
  return {};
}

// Of the generation before the present one: nobody needs to be present any more to say how it ended.
void MemberReports::take_late_fault(const std::string& id, const FaultReport& report) {
  Job* job = registry_.find_job(id);
  if (job == nullptr || report.generation != job->membership->current.number - 1) return;
  if (lives_.need(report.worker, report.incarnation)) decisions_.apply(*job, LateFaultReported{report});
}

OrRefusal<void> MemberReports::report_fault(const std::string& id, const FaultReport& report) {
  take_late_fault(id, report);
  auto job = need_present(id, report, MaySay::kAnyMember);
  if (!job) return tl::unexpected(job.error());
  decisions_.apply(**job, FaultReported{report});
  return {};
}

// True of the same state whoever says it, and of a job that has ended, too: a copy comes after its checkpoint.
OrRefusal<void> MemberReports::note_copy(const std::string& id, const CheckpointRecord& record) {
  Job* job = registry_.find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  if (auto worker = lives_.need(record.worker, record.incarnation); !worker) return tl::unexpected(worker.error());
  for (const int64_t step : record.removed_steps) checkpoint_removed(id, step);
  const auto found = job->checkpoints.find(record.step);
  if (found == job->checkpoints.end() || found->second.state_hash != record.state_hash) return {};  // removed, or another's
  found->second.copy = record.copy;
  found->second.copied_at = record.copied_at;
  const auto known = job->membership->checkpoints.find(record.step);
  const bool unreadable = known != job->membership->checkpoints.end() && known->second.unreadable;
  journal_.write().save_checkpoint({id, found->second, unreadable});
  return {};
}

OrRefusal<void> MemberReports::register_checkpoint(const std::string& id, const CheckpointRecord& told) {
  if (!told.copied_at.empty()) return note_copy(id, told);
  CheckpointRecord record = told;
  auto job = need_present(id, record, MaySay::kAnyMember);
  if (!job) return tl::unexpected(job.error());
  if (const auto staleness = stale_state((*job)->membership, record)) {
    return refuse(Refusal::Kind::kStale, staleness->code, staleness->detail);
  }
  for (const int64_t step : record.removed_steps) forget_checkpoint(**job, step);
  CheckpointRecord& kept = (*job)->checkpoints[record.step];
  if (kept.state_hash == record.state_hash && kept.copy == record.copy) record.copied_at = kept.copied_at;  // said again
  kept = record;
  journal_.write().save_checkpoint({id, record, false});
  if (!record.state_hash.empty() && record.step >= (*job)->state_hash_step) {
    (*job)->state_hash = record.state_hash;
    (*job)->state_hash_step = record.step;
  }
  decisions_.apply(**job, CheckpointTaken{record});
  return {};
}

void MemberReports::checkpoint_removed(const std::string& id, int64_t step) {
  Job* job = registry_.find_job(id);
  if (job != nullptr && forget_checkpoint(*job, step)) decisions_.apply(*job, CheckpointRemoved{step});
}

// True: it was in the catalogue.
bool MemberReports::forget_checkpoint(Job& job, int64_t step) {
  if (job.checkpoints.erase(step) == 0) return false;
  journal_.write().remove_checkpoint(job.id, step);
  return true;
}

OrRefusal<void> MemberReports::record_event(const std::string& id, const WorkerEvent& message) {
  const Job* job = registry_.find_job(id);
  if (job == nullptr) return tl::unexpected(no_such_job(id));
  if (auto worker = lives_.need(message.worker, message.incarnation); !worker) return tl::unexpected(worker.error());
  journal_.record({message.kind, message.message, id, message.worker, job->membership->current.number});
  return {};
}

}  // namespace holdfast::rendezvous
