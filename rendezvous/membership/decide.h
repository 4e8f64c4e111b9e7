// The state machine of one job's membership: who takes part in which generation, from which state, and why.
//
// Promises: pure — the same state, input, time and secrets give the same outcome. Generations only grow; a worker is in
// at most the current one; a generation never starts from a memory below a committed step while a worker that holds a
// newer state answers (but for one that leaves, when it could write no checkpoint and nobody has room to copy from it).
// Every decision is noted with its reason.
// Refuses: inputs of stale generations and incarnations have no effect; `stale` says so beforehand, for the reply.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/state.h"

namespace holdfast::rendezvous {

struct Decision {
  JobMembership state;
  std::vector<Effect> effects;
};

// `new_secret` is called once for each generation that forms.
Decision decide(JobMembership state, const Input& input, Millis now, const std::function<std::string()>& new_secret);

// Takes in a report that says nothing new, whatever the number of participants: that the worker lives, and how far it is. True:
// it is taken in, and decide() would have made no more of it than of a Tick. False: nothing was changed; decide() has to hear
// it.
bool take_heartbeat(JobMembership& job, const WorkerReported& report, Millis now);

// The directive of `worker`, a participant of the job.
Directive directive_for(const JobMembership& job, const std::string& worker);
// The participants whose directive may differ from what it was at the last call; that of every other one does not.
std::vector<std::string> workers_to_notify(JobMembership& job);

struct Staleness {
  std::string code, detail;  // of the problem to answer with
};
// Whether a message of a member that speaks of `generation` is of the present. `rank0`: only rank 0 may say this.
std::optional<Staleness> stale(const JobMembership& job, const std::string& worker, const std::string& incarnation,
                               int64_t generation, bool rank0);

// Whether the state in a checkpoint is of a history that the job has given up: it went back below it since.
std::optional<Staleness> stale_state(const JobMembership& job, const CheckpointRecord& record);

// Rank of `worker` (in this incarnation) in the current generation, or -1.
int rank_in(const Generation& generation, const std::string& worker, const std::string& incarnation);
int rank_of(const JobMembership& job, const Participant& participant);
bool is_member(const JobMembership& job, const Participant& participant);
// Whether what the status says is of this job, and not of another that had its id before the database was restored.
bool speaks_of(const JobMembership& job, const WorkerStatus& status);
// Whether the participant does nothing of the current generation any more, nor of an older one.
bool is_prepared(const JobMembership& job, const Participant& participant);
// Whether the participant holds a state that the next generation could start from.
bool holds_state(const JobMembership& job, const Participant& participant);
// Whether the current generation trains, and all of its members say so: asked to stop now, it ends with a checkpoint.
bool is_whole(const JobMembership& job);
const KnownCheckpoint* newest_checkpoint(const JobMembership& job);
// Whether the last generation is one that the database knows by its number alone: it was restored from a copy that is older
// than the workers. Until the next generation forms, the state that counts is that of the newest generation spoken of.
bool is_outrun(const JobMembership& job);
int64_t newest_state_generation(const JobMembership& job);  // that a participant holds a state of; 0: nobody does

// Whether all of its workers could be asked of it for another job: it comes back from what it writes down first.
bool is_preemptible(const JobMembership& job, Millis now);
// "preempted by j7 (priority 5)"; only where preempted_by says so.
std::string preemption_in_words(const JobMembership& job);
// Whether it gave up its workers in order, preempted or to be tried again, and has not begun since; and why, for people.
bool is_set_aside(const JobMembership& job);
bool is_done_at(const JobMembership& job, int64_t step);
std::string set_aside_in_words(const JobMembership& job);
// Whether everybody was freed in order: nobody trains, and what a former member says can only be what was said before.
bool is_dormant(const JobMembership& job);
// The step of the newest state that is written down: what a job without workers would begin from.
int64_t kept_step(const JobMembership& job);

// Workers of the job in whose place another one would do better: others do not reach them (seating.cpp).
std::vector<std::string> in_the_way(const JobMembership& job, Millis now);
// Whether a worker that is not of the job had better stay away for now: others of the job did not reach it (rifts.cpp).
bool is_kept_away(const JobMembership& job, const std::string& worker, const std::string& incarnation, Millis now);

}  // namespace holdfast::rendezvous
