// One call of decide(), as its parts see it: the state being changed, the time, and the effects so far.
//
// Private to the membership.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/decide.h"

namespace holdfast::rendezvous {

struct Turn {
  JobMembership& job;
  Millis now;
  const std::function<std::string()>& new_secret;
  std::vector<Effect>& effects;
  bool judges = false;            // of silence; see Tick
  Millis listening_since_ms = 0;  // silence before does not count

  void note(std::string kind, std::string message, std::string worker = "") const {
    effects.emplace_back(Note{std::move(kind), std::move(message), std::move(worker), job.current.number});
  }
  void free(const std::string& worker, const std::string& reason) const {
    effects.emplace_back(Freed{worker, reason});
    job.participants.erase(worker);
  }
};

// formation.cpp
void advance_forming(Turn& turn);
void free_leavers(Turn& turn);
int64_t best_memory(const JobMembership& job, bool leaving_too);

// The state that a generation of these workers begins with.
StateSource choose_source(const JobMembership& job, const std::vector<std::string>& names);

// The step of a state that the next generation could start from, or -1.
int64_t memory_of(const JobMembership& job, const Participant& participant);

// progress.cpp
// The first generation after `generation` that began below `step`, or 0. `generation` <= 0: not known, 0.
int64_t went_back_below(const JobMembership& job, int64_t step, int64_t generation);

// references.cpp
// For a while, since the trouble may pass; or for good, where what the worker computes is wrong.
enum class Refusing { kForAWhile, kForGood };
void refuse(Turn& turn, const Participant& participant, const std::string& reason, Refusing how = Refusing::kForAWhile);
// Why a prepared worker does not fit the job's references, or "".
std::string misfit(const JobMembership& job, const Participant& participant);
// Whether they are fixed: from the first generation on that is known.
bool references_hold(const JobMembership& job);
// Before that: sets the references to what most of `ready` (at least one) have; the others are returned.
std::vector<std::string> agree_on_references(JobMembership& job, std::vector<std::string> ready);

// faults.cpp
void on_fault_report(Turn& turn, const FaultReport& report);
void on_late_fault_report(Turn& turn, const FaultReport& report);
void on_gone(Turn& turn, const std::string& worker, const std::string& reason);
// The current generation is over. Called again while forming it adds to the reasons. `detail`: for the event alone.
void begin_fault(Turn& turn, const std::string& reason, const std::string& detail = "");
std::string stopped_in_words(const std::string& worker);
void give_up_on_silent(Turn& turn);
// A worker that was left out and never stops keeps no place in the job.
void free_stuck(Turn& turn);
// How long a member may be silent once it is asked for a sign of life.
Millis answer_time(const Participant& participant);
bool is_awaited(const JobMembership& job, const Participant& participant);

// unreadable.cpp
// The generation's checkpoint does not verify, as one of its members says.
void on_unreadable(Turn& turn, const FaultReport& report);
// The same of the generation before, when the next has formed.
void second_doubt(JobMembership& job, const FaultReport& report);
// Where `ring`, in rank order, would read a checkpoint that is doubted: others read what the doubting worker could not.
void turn_away_from_doubt(const JobMembership& job, std::vector<std::string>& ring);
// Whether the worker does not join while others find out whether they can read what it could not.
bool is_spared_reading(const JobMembership& job, const std::string& worker);
// There is no doubt any more once the job has begun from another state, or gone on from that one.
void settle_doubt(JobMembership& job);

// silence.cpp
void on_silence(Turn& turn, const FaultReport& report);
void judge_silence(Turn& turn);

// restored.cpp
void on_newer_seen(Turn& turn, const NewerSeen& seen);
void on_checkpoints_found(Turn& turn, const CheckpointsFound& found);
// How long a job that was outrun waits for workers to speak up, from forming_since_ms on.
bool is_listening(const JobMembership& job, Millis now);
// Steps first to last, both included, were applied, and the database lacks who computed them.
void note_missing_records(Turn& turn, int64_t first, int64_t last);

// orderly.cpp
void advance_running(Turn& turn);
void advance_yielding(Turn& turn);
void begin_yield(Turn& turn, const std::string& reason, bool checkpoint);
void on_pause(Turn& turn);
void on_stop(Turn& turn, const StopAsked& asked);
void on_resume(Turn& turn);
void finish_pause(Turn& turn);
void stop_now(Turn& turn);
void free_all(Turn& turn, const std::string& reason);
// No generation is alive, and that is no fault: the next forms when there are workers, from the newest state there is.
void begin_anew(Turn& turn, const std::string& why);
// Whether the participant wants out or is taken back.
bool is_leaving(const Participant& participant);

// preemption.cpp
void on_preempt(Turn& turn, const PreemptAsked& input);
void on_preempt_withdrawn(Turn& turn);
void finish_preemption(Turn& turn);
void call_off_preemption(Turn& turn, const std::string& why);
// Calls off one that has waited for too long for a generation that could yield.
void bound_preemption(Turn& turn);
// Whether every step that counts is in a checkpoint: nothing is lost when all workers go.
bool is_written_down(const JobMembership& job);

// retries.cpp
// The job cannot go on as it is: it begins again later, where that may help, or has failed. `computed`: the failure came out of
// the numbers, which come out the same again in an exact job.
void fail(Turn& turn, const std::string& reason, bool computed);

// progress.cpp
// The steps up to `step` were applied in the current generation, whoever lived to say so.
void commit_up_to(Turn& turn, int64_t step);
void on_progress(Turn& turn, const Progress& progress);
void on_checkpoint(Turn& turn, const CheckpointRecord& record);
// succeeded, failed, cancelled: everybody is free.
void end_job(Turn& turn, JobState state, const std::string& reason);
// How a failed job's owner goes on from its last good checkpoint, as the end of a sentence.
std::string where_to_resume(const JobMembership& job);

}  // namespace holdfast::rendezvous
