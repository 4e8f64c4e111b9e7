// One job's membership, as the service knows it: plain values, no clock, no disk, no threads.
//
// decide.h has the function that turns (state, input, now) into (state', effects). KeptMembership outlives the service; the
// rest of JobMembership comes back by itself.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::rendezvous {

using Millis = int64_t;  // of a steady clock

enum class JobState { kQueued, kRunning, kWaiting, kPaused, kSucceeded, kFailed, kCancelled };
const char* job_state_name(JobState state);
JobState job_state_from(const std::string& name);  // throws std::invalid_argument
bool is_ended(JobState state);                     // succeeded, failed, cancelled

// forming   no generation is alive: members of the last one are fenced, the next forms as soon as it can
// running   `current` trains
// yielding  its members were asked to stop after the same step
enum class Stage { kForming, kRunning, kYielding };
const char* stage_name(Stage stage);
Stage stage_from(const std::string& name);

// Why the job is forming, which decides whether the survivors' memory may be used under recovery=checkpoint.
enum class Cause { kStart, kFault, kOrderly };

// preempt: to give up all workers for a job of higher priority, and to come back by itself
enum class Intent { kRun, kPause, kStop, kPreempt };

struct Generation {
  int64_t number = 0;           // 0: none yet
  std::vector<Member> members;  // in rank order; none: formed before the database was restored from a copy (is_outrun)
  std::string secret;
  StateSource source;
  int64_t lineage = 0;  // see JobMembership::lineage
};

// Standings: the values of which a participant's directive is made, beside those that are fixed for the job or the generation.
// A directive is the same as before while both standings are, the job's and the participant's (workers_to_notify).
struct Standing {
  bool member = false;    // of the current generation
  bool active = false;    // in one that went on without it
  bool blank = false;     // a member that holds nothing of the job
  bool left_out = false;  // of a member
  bool released = false;  // a member that yields and leaves: it hands over what it has
  int64_t question = 0;
  bool operator==(const Standing&) const = default;
};
struct JobStanding {
  Stage stage = Stage::kForming;
  int64_t generation = 0;
  bool outrun = false, checkpoint = false;
  std::string words;  // why
  std::string shard;
  int64_t replicas = 0;
  bool operator==(const JobStanding&) const = default;
};

// A worker that the scheduler gave to this job and that is neither lost nor refused.
struct Participant {
  Member member;  // worker, incarnation, address
  std::string numerics;
  int64_t after_generation = 0;  // the job's generation when it was given to it: takes part only in later ones
  int64_t blank_to = 0;  // it held nothing when it was given: a state of a generation up to this one is a late message's
  WorkerStatus status;   // the last that speaks of this job; phase idle until then
  bool wanted = true;    // false: the scheduler or an administrator takes it back; leaves in an orderly way
  std::string unwanted_reason;
  Millis heard_ms = 0;
  Millis suspected_ms = -1;  // when a peer reported it; -1: nobody did
  std::string suspicion;
  bool gone = false;                 // the reporter found no process at its address
  Millis asked_ms = -1;              // when it was asked whether it lives; -1: it was not, or has answered
  int64_t question = 0;              // how often it was
  std::string silence;               // why it was asked
  bool left_out = false;             // did not answer in time; counts again once it is prepared
  Millis left_out_ms = -1;           // when it was left out last
  bool unheard = false;              // from the database, and has not spoken since the service started
  Millis prepared_ms = -1;           // since when it could join
  int seat = -1;                     // its rank in the current generation, if it is a member: looked at first (rank_of)
  std::optional<Standing> standing;  // at the last call of workers_to_notify
};

using RiftKey = std::pair<std::string, std::string>;  // two workers, in natural order
// Two members that live and could not form a ring as neighbours (rifts.h).
struct Rift {
  Member first, second;
  int64_t strikes = 0;   // generations that failed for it
  Millis again_ms = -1;  // nobody waits for it from then on, and it is tried again
};
struct Barred {  // waits, for several others do not reach it
  Member member;
  int64_t times = 0;
  Millis again_ms = -1;
};

struct KnownCheckpoint {
  int64_t step = 0;
  std::string store, state_hash;
  bool unreadable = false;
  bool operator==(const KnownCheckpoint&) const = default;
};

// A checkpoint that one worker could not read, and no other has tried yet (unreadable.cpp).
struct Doubt {
  StateSource source;
  std::string worker;
  int rank = 0;            // of the worker, when it tried
  int64_t generation = 0;  // in which it tried
  bool seconded = false;   // by the word of another that came late: the next word gives it up
};

// The part of a job's membership that the database keeps: a service that was started again goes on from this.
// store/kept_fields.h says where each field is kept, and does not compile without a row for each.
struct KeptMembership {
  std::string job;
  int64_t born = 0;  // see Directive::job_born
  JobSpec spec;
  std::string shard;  // of a spec that leaves it open (auto): what was chosen for its workers; "": nothing was yet
  int64_t min_nodes = 1, nodes = 1, max_nodes = 1;  // start as the spec's, ScaleAsked changes them
  // The owners of each part of a divided state: as a person asked since (ScaleAsked), and those of the current generation; 0:
  // as the spec says.
  int64_t replicas = 0, replicas_given = 0;
  int64_t replicas_wanted() const { return replicas > 0 ? replicas : spec.replicas; }
  int64_t replicas_now() const { return replicas_given > 0 ? replicas_given : spec.replicas; }
  // The division of the state that the workers are told of.
  const std::string& shard_now() const { return spec.shard == "auto" ? shard : spec.shard; }

  JobState state = JobState::kQueued;
  std::string reason;             // for people
  Stage stage = Stage::kForming;  // yielding is kept as running: the cause shows itself again
  Cause cause = Cause::kStart;
  Intent intent = Intent::kRun;
  Generation current;  // the last one formed
  int64_t committed_step = 0;
  int64_t restarts = 0;               // faults so far
  std::string data_digest, numerics;  // the same for all members, from the first generation on
  int64_t data_tokens = 0;            // of that data; 0: not known
  // The steps that the job is to do; 0: not known, for it is to do epochs over data of which no worker has told the length.
  int64_t total_steps() const { return spec.steps_over(data_tokens); }
  // Counts how often the job went back to an older state. Memory of a worker counts only if the worker was a member of
  // a generation of the same lineage, and its state was computed in none that a later one began below: steps that were
  // voided must not come back.
  int64_t lineage = 0;
  std::map<std::string, int64_t> lineage_of;       // incarnation -> lineage it was last a member in
  std::map<int64_t, int64_t> began_at;             // generation -> the step that it began from
  int64_t outrun_to = 0;                           // the newest generation that the database knows by its number alone
  std::map<int64_t, KnownCheckpoint> checkpoints;  // by step
  double checkpoint_s = 0;                         // how long the newest checkpoint took to write; 0: not known
  std::vector<StateSource> resume;                 // newest first. More than one: falling back is allowed

  // the queue's part
  std::string stop_reason;         // of a stop that nobody asked for: the job fails with it
  std::string preempted_by;        // the job of higher priority, until the next generation forms; else ""
  int64_t preemptor_priority = 0;  // of that job
  int64_t preemptions = 0;         // so far
  int64_t preemptions_failed = 0;  // since one succeeded
  Millis preemptible_ms = 0;       // not before then; kept as wall time
  int64_t retries = 0;             // how often it began again after a failure
  bool retry_pending = false;      // until the next generation forms
  std::string failure;             // the last one
  int64_t failed_step = -1;        // the step at which that came
};

// All of a job's membership: what is kept, and what comes back by itself, from the workers' next statuses or with time.
struct JobMembership : KeptMembership {
  int64_t distrusted_in = 0;                              // the generation whose memory was distrusted last
  std::map<std::string, Participant> participants;        // by worker
  std::optional<JobStanding> standing;                    // at the last call of workers_to_notify
  std::set<std::pair<std::string, int64_t>> diverged_in;  // worker, generation: its state was found to differ from the others'

  // forming
  Millis forming_since_ms = 0;
  Millis listen_until_ms = 0;  // outrun: workers may know more
  Millis first_ready_ms = -1;
  std::vector<std::string> why;  // the reasons for which the last generation ended, in words
  bool counted = false;          // `restarts` has this fault already
  int64_t fruitless = 0;         // generations since a step was last committed
  std::set<RiftKey> unreached;   // neighbours in the last generation of whom one reported that it does not reach the other
  std::map<RiftKey, Rift> rifts;
  std::map<std::string, Barred> barred;  // by worker
  std::vector<Member> last_members;      // of the generation before the current one
  std::optional<Doubt> doubt;
  // running
  Millis all_active_ms = -1, formed_ms = 0;
  Millis last_commit_ms = -1;  // when a step was last committed
  bool resumed_noted = true;   // false: the next commit ends a time without progress
  Millis halted_ms = -1;       // when it was known that there is none; -1: the service was not there
  std::string halted_why;
  double step_s = 0;
  // yielding
  Millis yield_deadline_ms = 0;
  bool yield_checkpoint = false;
  bool stop_checkpoint = true;  // intent stop: of the last step. A service that was started again meanwhile has one written
  std::string yield_reason;
  bool handover_failed = false;  // a yield was to write a checkpoint, and there is none
  Millis preempt_since_ms = -1;  // intent preempt: since when; -1: not known
};

// --- inputs

struct WorkerAssigned {
  Member member;
  std::string numerics;
  int64_t after_generation = 0;  // the current one; an older one for a worker that is back before the job went on
  bool more_follow = false;      // others are assigned right after it: what follows is decided with the last one
  bool holds_nothing = false;    // by its own account, or because it was told to drop all
};
struct WorkerUnwanted {  // the scheduler's or an administrator's wish; orderly
  std::string worker, reason;
};
struct WorkerReported {
  std::string worker;
  WorkerStatus status;
};
struct WorkerGone {
  std::string worker, reason;  // "its process was killed by signal 9"
};
struct NewerSeen {  // a worker, of this job or not, speaks of a generation that the database does not know
  std::string worker;
  WorkerStatus status;
};
// On disk and not in the database, which is an older copy: of a generation that it does not know, or of a known one where it
// was said to be restored.
struct CheckpointsFound {
  int64_t generation = 0;  // the newest that wrote one
  std::vector<KnownCheckpoint> checkpoints;
};
struct FaultReported {
  FaultReport report;
};
struct ProgressMade {
  Progress progress;
};
struct CheckpointTaken {
  CheckpointRecord record;
};
struct PauseAsked {};
struct StopAsked {
  std::string reason = {};  // "": a person asked for it, and the job is cancelled; else it fails with that
  bool checkpoint = true;   // of the last step
};
struct ResumeAsked {};
struct PreemptAsked {  // the scheduler's wish: all of its workers are for another job
  std::string by;
  int64_t priority = 0;
};
struct PreemptWithdrawn {};  // that other job has what it needs, or has ended
struct FailAsked {           // it cannot begin any more
  std::string reason;
};
struct ScaleAsked {
  int64_t min_nodes = 1, nodes = 1, max_nodes = 1;
  int64_t replicas = 0;  // of a divided state; 0: as they are
};
// The division of the state of a job that leaves it open, while nobody holds a state of it: workers prepare anew.
struct ShardChosen {
  std::string shard, why;
};
struct CheckpointRemoved {  // it is no longer in the store, by a person's wish
  int64_t step = 0;
};
// Of a member of the generation before the current one, which formed before this report came.
struct LateFaultReported {
  FaultReport report;
};
struct SourceGiven {  // the checkpoint that a job which came after another one begins from
  StateSource source;
};
// Time passes. Silence is judged by ticks alone, and only by those before which every message that had come was taken in:
// else an answer could wait behind the sentence.
struct Tick {
  bool judges = true;
  Millis listening_since_ms = 0;  // the service heard nobody before: it was just started, or stood still
};
using Input =
    std::variant<WorkerAssigned, WorkerUnwanted, WorkerReported, WorkerGone, NewerSeen, CheckpointsFound, FaultReported,
                 ProgressMade, CheckpointTaken, PauseAsked, StopAsked, ResumeAsked, PreemptAsked, PreemptWithdrawn, FailAsked,
                 ScaleAsked, ShardChosen, CheckpointRemoved, LateFaultReported, SourceGiven, Tick>;

// --- effects, to be made durable in this order before anybody is answered

struct Note {  // an event for people
  std::string kind, message, worker;
  int64_t generation = 0;
};
struct Formed {
  Generation generation;
};
struct Outrun {  // generations up to this one exist, though the database knew nothing of them
  Generation generation;
};
struct StepsCommitted {  // steps first to last, both included, applied in `generation`
  int64_t generation = 0, first = 0, last = 0;
};
struct StepsVoided {  // every step from `first` on; the job goes on from an older state
  int64_t first = 0, generation = 0;
};
struct Refused {  // is not to be offered to this job again in this incarnation, for a while or for good
  std::string worker, incarnation, reason;
  bool for_good = false;
};
struct Freed {  // no longer of this job
  std::string worker, reason;
};
struct Outlived {  // silent since it was suspected, and the job went on without it: this life of it is over
  std::string worker, incarnation, reason;
};
struct CheckpointUnreadable {
  int64_t step = 0;
};
struct RetryPlanned {  // it is to begin again, and not before that
  int64_t delay_ms = 0;
};
using Effect = std::variant<Note, Formed, Outrun, StepsCommitted, StepsVoided, Refused, Freed, Outlived, CheckpointUnreadable,
                            RetryPlanned>;

}  // namespace holdfast::rendezvous
