// Unreadable checkpoints: one worker's word is a doubt, and the checkpoint is given up when another worker says so, too.
//
// A worker with bad memory, or a disk that fails under it, would else make a job give up all of its checkpoints, one after the
// other. The next generation forms in an order in which another worker reads what the doubting one could not, or without that
// one where it can be spared. A job's only worker tries twice.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

bool is_given_up(const JobMembership& job, const StateSource& source) {
  if (source.job != job.job) return job.resume.empty() || job.resume.front() != source;
  const auto found = job.checkpoints.find(source.step);
  return found == job.checkpoints.end() || found->second.unreadable;
}

// Whether nobody else of the job could try soon: a worker that gets ready for very long, or was left out, may never come.
bool is_without_company(const JobMembership& job, const std::string& worker) {
  constexpr int64_t kPatience = 8;  // generations without a step, of which the later ones are half a minute apart
  if (job.current.members.size() == 1 && job.fruitless > kPatience) return true;
  return std::ranges::none_of(job.participants, [&](const auto& entry) {
    const auto& [other, p] = entry;
    return other != worker && !is_leaving(p) && !p.left_out;
  });
}

// The next newest is taken, where falling back is allowed.
void give_up(Turn& turn, const StateSource& source, const std::string& why) {
  JobMembership& job = turn.job;
  job.doubt.reset();
  if (source.job == job.job) {
    job.checkpoints.at(source.step).unreadable = true;
    turn.effects.emplace_back(CheckpointUnreadable{source.step});
    const KnownCheckpoint* next = newest_checkpoint(job);
    turn.note("checkpoint_unreadable", fmt::format("the checkpoint of step {} cannot be read ({}); {}", source.step, why,
                                                   next != nullptr ? fmt::format("falling back to step {}", next->step)
                                                                   : "there is no other, the job begins where it began"));
    return;
  }
  if (job.resume.size() == 1) {
    const std::string whose = source.job.empty() ? source.store : "job " + source.job;
    return fail(turn, fmt::format("the checkpoint to resume from ({}, step {}) cannot be read: {}", whose, source.step, why),
                false);
  }
  job.resume.erase(job.resume.begin());
  turn.note("checkpoint_unreadable",
            fmt::format("the checkpoint of job {}, step {} cannot be read ({}); falling back to job {}, step {}", source.job,
                        source.step, why, job.resume[0].job, job.resume[0].step));
}

}  // namespace

void on_unreadable(Turn& turn, const FaultReport& report) {
  JobMembership& job = turn.job;
  const StateSource source = job.current.source;
  if (source.kind != StateSource::Kind::kCheckpoint || source.step != report.checkpoint_step || is_given_up(job, source))
    return;
  const bool is_alone = is_without_company(job, report.worker);
  if (!job.doubt || job.doubt->source != source) {
    const int rank = rank_in(job.current, report.worker, report.incarnation);
    job.doubt = Doubt{source, report.worker, rank, job.current.number};
    turn.note("checkpoint_doubted",
              fmt::format("{} cannot read the checkpoint of step {} ({}); {}", report.worker, source.step, report.detail,
                          is_alone ? "it tries once more" : "another worker tries before it is given up"),
              report.worker);
    return;
  }
  const bool is_same = job.doubt->worker == report.worker;
  if (is_same && job.doubt->generation == job.current.number) return;  // said again: the answer was lost
  if (is_same && !is_alone && !job.doubt->seconded) {
    job.doubt->generation = job.current.number;
    if (job.current.members.size() == 1) return;  // the others are not ready yet
    return refuse(turn, job.participants.at(report.worker),
                  fmt::format("it could not read the checkpoint of step {} twice, and no other worker says so: test its memory "
                              "and its disks ({})",
                              source.step, report.detail));
  }
  give_up(turn, source, report.detail);
}

void second_doubt(JobMembership& job, const FaultReport& report) {
  if (job.doubt && job.doubt->generation == report.generation && job.doubt->source.step == report.checkpoint_step &&
      job.doubt->worker != report.worker)
    job.doubt->seconded = true;
}

bool is_spared_reading(const JobMembership& job, const std::string& worker) {
  return job.doubt && job.doubt->worker == worker && job.shard_now() != "none";
}

void turn_away_from_doubt(const JobMembership& job, std::vector<std::string>& ring) {
  if (ring.size() < 2 || !job.doubt || choose_source(job, ring) != job.doubt->source) return;
  const auto least = static_cast<size_t>(std::max<int64_t>(job.min_nodes, 1));
  if (ring.size() > least) std::erase_if(ring, [&](const std::string& worker) { return is_spared_reading(job, worker); });
  const auto place = std::min(static_cast<size_t>(job.doubt->rank), ring.size() - 1);
  if (ring[place] == job.doubt->worker) std::ranges::rotate(ring, ring.begin() + 1);
}

void settle_doubt(JobMembership& job) {
  if (job.doubt && (job.current.source != job.doubt->source || job.committed_step > job.doubt->source.step)) job.doubt.reset();
}

}  // namespace holdfast::rendezvous
