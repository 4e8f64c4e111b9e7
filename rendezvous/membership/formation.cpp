// Formation: when the next generation can be made, of whom, and from which state.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "rendezvous/membership/growing_pause.h"
#include "rendezvous/membership/rifts.h"
#include "rendezvous/membership/seating.h"
#include "rendezvous/membership/turn.h"
#include "rendezvous/protocol/rules/schedule.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/natural_order.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kFirstMs = 10000;  // with no survivor: how long those still preparing are waited for
constexpr Millis kBackoffMaxMs = 30000;
constexpr int64_t kFruitlessFree = 3;  // generations without a step before the next ones are put off

// A job that is to go back to a checkpoint after a fault does so, unless the database was put back from an older copy and knows
// of none: it would begin from the beginning, or from where another job has not arrived yet, and lose steps that workers hold.
bool memory_allowed(const JobMembership& job) {
  const bool goes_back = job.spec.recovery == "checkpoint" && job.cause == Cause::kFault;
  return !goes_back || (job.outrun_to > 0 && newest_checkpoint(job) == nullptr);
}

int64_t newest_step(const JobMembership& job) {
  const KnownCheckpoint* newest = newest_checkpoint(job);
  return newest != nullptr ? newest->step : -1;
}

// Whether the worker, after a fault, may alone have parts of the divided state that the job goes on from: nobody was there yet
// to take them from it. It is let go after several generations without a step: it may be what ends them.
bool may_have_parts(const JobMembership& job, const Participant& p) {
  if (job.shard_now() == "none" || job.cause != Cause::kFault || job.fruitless > kFruitlessFree) return false;
  const int64_t held = memory_of(job, p);
  return held > newest_step(job) && held == best_memory(job, true);
}

// The workers that could be members now. A worker that leaves is among them only while it alone holds the newest state, or
// parts of it: until that is in a checkpoint, or, where none can be written, for as long as a worker that stays can copy it.
std::vector<std::string> ready_workers(const JobMembership& job) {
  const int64_t staying = std::max(best_memory(job, false), newest_step(job));
  const bool heir = job.max_nodes > 1 && std::ranges::any_of(job.participants, [&](const auto& entry) {
                      return is_prepared(job, entry.second) && !is_leaving(entry.second);
                    });
  const bool may_wait = !job.handover_failed || heir;
  const auto is_needed = [&](const Participant& p) { return memory_of(job, p) > staying || may_have_parts(job, p); };
  std::vector<std::string> names;
  for (const auto& [worker, p] : job.participants) {
    if (!is_prepared(job, p)) continue;
    if (!is_leaving(p) || (may_wait && is_needed(p))) names.push_back(worker);
  }
  return names;
}

// Ranks: members of the last generation keep their order, others follow by name.
void sort_by_rank(const JobMembership& job, std::vector<std::string>& names) {
  std::vector<std::pair<int, std::string>> ranked;
  for (std::string& worker : names) {
    const int rank = rank_of(job, job.participants.at(worker));
    ranked.emplace_back(rank < 0 ? INT32_MAX : rank, std::move(worker));
  }
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : natural_less(a.second, b.second);
  });
  std::ranges::transform(ranked, names.begin(), [](auto& entry) { return std::move(entry.second); });
}

// The members of the next generation, in rank order. When there are too many: the newest state first, whoever holds it;
// then those who stay or have parts of it, then those whose state is newer.
std::vector<std::string> choose_members(const JobMembership& job, std::vector<std::string> names) {
  sort_by_rank(job, names);
  turn_away_from_doubt(job, names);
  if (static_cast<int64_t>(names.size()) <= job.max_nodes) return names;
  const auto participant = [&](const std::string& worker) -> const Participant& { return job.participants.at(worker); };
  const auto by_memory = [&](const std::string& worker) { return memory_of(job, participant(worker)); };
  std::ranges::stable_sort(names, std::greater{}, by_memory);
  const auto gives_way = [&](const std::string& worker) {
    return is_leaving(participant(worker)) && !may_have_parts(job, participant(worker));
  };
  std::stable_sort(names.begin() + 1, names.end(),
                   [&](const std::string& a, const std::string& b) { return !gives_way(a) && gives_way(b); });
  names.resize(job.max_nodes);
  sort_by_rank(job, names);
  turn_away_from_doubt(job, names);
  return names;
}

std::string source_in_words(const JobMembership& job, const StateSource& source, const std::vector<std::string>& members) {
  if (job.spec.serves()) return "to serve " + job.spec.init_from;
  if (source.kind == StateSource::Kind::kInitial) return "from the beginning";
  if (source.kind == StateSource::Kind::kCheckpoint) {
    const std::string whose = source.job == job.job ? "" : " of " + (source.job.empty() ? source.store : "job " + source.job);
    return fmt::format("from the checkpoint of step {}{}", source.step, whose);
  }
  std::vector<std::string> holders;
  for (const std::string& worker : members) {
    if (memory_of(job, job.participants.at(worker)) == source.step) holders.push_back(worker);
  }
  return fmt::format("from the memory of {} at step {}", in_words(holders), source.step);
}

// Commits or voids the steps of the past, so that the committed step is the one at which the new generation starts. The end of
// a sentence for people.
std::string account_for_steps(Turn& turn, const StateSource& source) {
  JobMembership& job = turn.job;
  const StateSource& last = job.current.source;
  const bool has_own_steps = job.current.number > 0 && !(last.kind == StateSource::Kind::kCheckpoint && last.job != job.job &&
                                                         job.committed_step == last.step && source.step <= last.step);
  if (!has_own_steps) {  // all steps so far are another job's
    job.committed_step = source.step;
    return "";
  }
  commit_up_to(turn, source.step);  // applied by all, when rank 0 died before it could say so
  // Of a divided state the members find out whether parts of it are.
  if (source.step == job.committed_step) return job.shard_now() == "none" && !job.spec.serves() ? ", nothing is lost" : "";
  const int64_t from = source.step + 1, to = job.committed_step;
  turn.effects.emplace_back(StepsVoided{from, job.current.number + 1});
  const std::string lost = from == to ? fmt::format("step {} is", to) : fmt::format("steps {} to {} are", from, to);
  turn.note(
      "steps_voided",
      job.retry_pending
          ? fmt::format("{} computed again: the job begins again from step {} after it failed", lost, source.step)
          : fmt::format("{} computed again: no worker that answered holds a newer state than step {}", lost, source.step));
  job.committed_step = source.step;
  ++job.lineage;
  return fmt::format(", {} computed again", lost);
}

// A suspect that is still silent when the job goes on without it is no longer part of it: should it wake, it comes back as
// a new one, like one whose lease ended. A worker that is only slow (it speaks) keeps its life.
void end_lives_of_silent(Turn& turn) {
  for (auto it = turn.job.participants.begin(); it != turn.job.participants.end();) {
    const auto& [worker, p] = *it;
    const bool silent = p.left_out && p.suspected_ms >= 0 && p.heard_ms <= p.suspected_ms;
    if (silent) turn.effects.emplace_back(Outlived{worker, p.member.incarnation, p.suspicion});
    it = silent ? turn.job.participants.erase(it) : std::next(it);
  }
}

void form(Turn& turn, const std::vector<std::string>& names) {
  JobMembership& job = turn.job;
  Generation next;
  next.source = choose_source(job, names);
  std::string text = fmt::format("of {}", in_words(names));
  std::string from = source_in_words(job, next.source, names);
  from += account_for_steps(turn, next.source);
  next.number = job.current.number + 1;
  next.lineage = job.lineage;
  next.secret = turn.new_secret();
  std::vector<std::string> joined;
  for (const std::string& worker : names) {
    Participant& p = job.participants.at(worker);
    if (job.current.number > 0 && !is_member(job, p)) joined.push_back(worker);
    p.seat = static_cast<int>(next.members.size());
    next.members.push_back(p.member);
    job.lineage_of[p.member.incarnation] = job.lineage;
    p.suspected_ms = p.prepared_ms = -1;
    p.left_out = false;
  }
  end_lives_of_silent(turn);
  std::string why;
  for (const std::string& reason : job.why) why += (why.empty() ? "" : "; ") + reason;
  job.began_at[next.number] = next.source.step;
  job.replicas_given = job.replicas;
  job.last_members = std::move(job.current.members);
  job.current = std::move(next);
  job.stage = Stage::kRunning;
  job.state = JobState::kRunning;
  job.formed_ms = turn.now;
  job.all_active_ms = -1;
  job.first_ready_ms = -1;
  ++job.fruitless;
  job.why.clear();
  job.halted_why = why;
  job.retry_pending = false;
  settle_doubt(job);
  if (job.intent != Intent::kPreempt) job.preempted_by.clear();
  job.reason = fmt::format("generation {} {}", job.current.number, text);
  turn.effects.emplace_back(Formed{job.current});
  turn.note("generation_formed",
            fmt::format("generation {} forms {}, {}{}{}", job.current.number, text, from, why.empty() ? "" : ": ", why));
  for (const std::string& worker : joined)
    turn.note("worker_joined", fmt::format("{} takes part from generation {} on", worker, job.current.number), worker);
}

std::vector<std::string> preparing_workers(const JobMembership& job) {
  std::vector<std::string> names;
  for (const auto& [worker, p] : job.participants) {
    if (!is_prepared(job, p) && !is_leaving(p) && !p.left_out) names.push_back(worker);
  }
  std::ranges::sort(names, natural_less);
  return names;
}

void wait_for_more(Turn& turn, size_t ready, const std::string& but = "") {
  JobMembership& job = turn.job;
  const int64_t missing = job.min_nodes - static_cast<int64_t>(ready);
  std::string text = is_set_aside(job) ? set_aside_in_words(job) + ": " : "";
  text += fmt::format("waiting for {} more {}: {} needed, {} ready", missing, plural(missing, "worker"), job.min_nodes, ready);
  if (const auto preparing = preparing_workers(job); !preparing.empty()) {
    text += fmt::format(", {} {} getting ready", in_words(preparing), preparing.size() == 1 ? "is" : "are");
  }
  text += but;
  if (!but.empty() && job.reason != text) turn.note("job_waiting", text);
  const int64_t memory = best_memory(job, false);
  if (job.current.number > 0 && job.state == JobState::kRunning) {
    std::string why;
    for (const std::string& reason : job.why) why += (why.empty() ? " (" : "; ") + reason;
    turn.note("job_waiting", fmt::format("{}{}{}", text, why, why.empty() ? "" : ")") +
                                 (memory >= 0 ? fmt::format("; the state of step {} is kept in memory", memory) : ""));
    job.state = JobState::kWaiting;
  }
  job.reason = text;
  free_leavers(turn);
}

// Workers that do not fit the others are refused and leave `ready`, once there are enough that fit each other. False: there
// are too few. Until then the next worker to come may show which of them is wrong. The data also say how long epochs are: the
// job fails, and this is false, where it could not go on from its state for so long.
bool settle_references(Turn& turn, std::vector<std::string>& ready) {
  JobMembership& job = turn.job;
  const std::vector<std::string> odd = agree_on_references(job, ready);
  const size_t alike = ready.size() - odd.size();
  if (static_cast<int64_t>(alike) < job.min_nodes) {
    std::string but = fmt::format(" that {} together", alike == 1 ? "fits" : "fit");
    for (const std::string& worker : odd) but += fmt::format("; {}: {}", worker, misfit(job, job.participants.at(worker)));
    wait_for_more(turn, alike, but);
    return false;
  }
  for (const std::string& worker : odd) {
    const Participant participant = job.participants.at(worker);
    refuse(turn, participant, misfit(job, participant));
    std::erase(ready, worker);
  }
  const std::string unfit = unfit_length(job.spec, job.total_steps(), job.committed_step);
  if (!unfit.empty()) {
    end_job(turn, JobState::kFailed, unfit);
    return false;
  }
  if (const std::string cut = cut_schedule(job.spec, job.data_tokens); !cut.empty()) turn.note("schedule_cut", cut);
  return true;
}

// After generations that committed nothing the next waits: 1, 2, 4 … seconds, so that a lasting fault does not spin. Replicas
// commit nothing, and have nothing to agree on.
Millis backoff(const JobMembership& job) {
  if (job.cause != Cause::kFault || job.fruitless <= kFruitlessFree || job.spec.serves()) return 0;
  return growing_pause(1000, kBackoffMaxMs, job.fruitless - kFruitlessFree);
}

// Whether those who do not reach each other have other neighbours than in the last ring: that may well be the end of the fault.
bool is_rearranged(const JobMembership& job, const std::vector<std::string>& ring) {
  const auto is_same = [](const std::string& name, const Member& member) { return name == member.worker; };
  return !job.rifts.empty() && !std::ranges::equal(ring, job.current.members, is_same);
}

bool must_wait(Turn& turn, const std::vector<std::string>& ready, const Seating& seating) {
  JobMembership& job = turn.job;
  if (is_outrun(job)) return false;
  if (!is_rearranged(job, seating.ring) && turn.now < job.forming_since_ms + backoff(job)) return true;
  const bool survivors =
      std::ranges::any_of(ready, [&](const std::string& w) { return is_member(job, job.participants.at(w)); });
  if (survivors) return false;
  return !preparing_workers(job).empty() && turn.now < job.first_ready_ms + kFirstMs;
}

}  // namespace

// Members go once the next generation stands without them, or once it is clear that there is none to wait for.
void free_leavers(Turn& turn) {
  JobMembership& job = turn.job;
  std::vector<std::pair<std::string, std::string>> gone;
  for (const auto& [worker, p] : job.participants) {
    if (!is_leaving(p)) continue;
    const bool in_ring = job.stage != Stage::kForming && is_member(job, p);
    if (!in_ring) gone.emplace_back(worker, p.unwanted_reason.empty() ? "it was told to end" : p.unwanted_reason);
  }
  for (const auto& [worker, reason] : gone) turn.free(worker, reason);
}

StateSource choose_source(const JobMembership& job, const std::vector<std::string>& names) {
  StateSource source;
  int64_t memory = -1;
  for (const std::string& worker : names) memory = std::max(memory, memory_of(job, job.participants.at(worker)));
  const KnownCheckpoint* newest = newest_checkpoint(job);
  if (memory >= 0 && memory >= newest_step(job)) {
    source.kind = StateSource::Kind::kMemory;
    source.step = memory;
  } else if (newest != nullptr) {
    source.kind = StateSource::Kind::kCheckpoint;
    source.step = newest->step;
    source.job = job.job;
    source.store = newest->store;
    source.state_hash = newest->state_hash;
    source.copy = job.spec.checkpoint_copy;
  } else if (!job.resume.empty()) {
    source = job.resume.front();
  }
  return source;
}

int64_t memory_of(const JobMembership& job, const Participant& p) {
  return memory_allowed(job) && is_prepared(job, p) && holds_state(job, p) ? p.status.step : -1;
}

int64_t best_memory(const JobMembership& job, bool leaving_too) {
  int64_t best = -1;
  for (const auto& [worker, p] : job.participants) {
    if (leaving_too || !is_leaving(p)) best = std::max(best, memory_of(job, p));
  }
  return best;
}

void advance_forming(Turn& turn) {
  JobMembership& job = turn.job;
  if (job.intent == Intent::kStop) return stop_now(turn);  // a fault came between: no last checkpoint is worth waiting for
  if (is_outrun(job) && is_listening(job, turn.now)) return;
  if (turn.judges) give_up_on_silent(turn);
  free_stuck(turn);
  if (std::ranges::any_of(job.participants, [&](const auto& entry) { return is_awaited(job, entry.second); })) return;
  std::vector<std::string> ready = ready_workers(job);
  const bool enough = static_cast<int64_t>(ready.size()) >= job.min_nodes;
  const bool written_down = best_memory(job, true) <= kept_step(job);
  bound_preemption(turn);
  // A pause needs another generation only to write down what so far is in memory alone; so does a preemption, which can wait.
  if (job.intent == Intent::kPause && (!enough || written_down)) return finish_pause(turn);
  if (job.intent == Intent::kPreempt && is_written_down(job)) return finish_preemption(turn);
  if (job.intent == Intent::kPreempt && !enough)
    call_off_preemption(turn,
                        "its newest steps are in the memory of its workers alone, and too few are there to write them down");
  if (!enough) return wait_for_more(turn, ready.size());
  if (job.first_ready_ms < 0) job.first_ready_ms = turn.now;
  count_rifts(turn);
  Seating seating = seat_ring(job, choose_members(job, ready), turn.now);
  if (must_wait(turn, ready, seating)) return;
  if (!references_hold(job)) {
    if (!settle_references(turn, ready)) return;
    seating = seat_ring(job, choose_members(job, std::move(ready)), turn.now);
  }
  form(turn, seating.ring);
  note_waiting(turn, seating);
  free_leavers(turn);
}

}  // namespace holdfast::rendezvous
