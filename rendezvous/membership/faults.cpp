// Faults: what ends a generation, who is suspected, and for how long an answer is waited for.
//
// A suspect that has spoken since it was reported is waited for like everybody else: reports about peers are evidence,
// not verdicts.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/rifts.h"
#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kGoneMs = 50;          // so is one whose process is not there; a firewall that says so is found out by it
constexpr Millis kGraceMs = 10000;      // for one that has not spoken since the service started
constexpr int kDivergencesMax = 3;      // of one worker in one job
constexpr Millis kStuckMs = 60000;      // until one that was left out and does not stop gives up its place
constexpr Millis kAnswerMaxMs = 10000;  // for a member that nobody suspects

Millis answer_limit(const JobMembership& job) {
  return std::min<Millis>(kAnswerMaxMs, static_cast<Millis>(job.spec.collective_timeout_s * 1000 / 2));
}

// The reporter's evidence, as the end of a sentence that begins with it. `whom`: "" when it suspects nobody.
std::string seen_in_words(const FaultReport& report, const std::string& whom) {
  const auto at = [&](const std::string& preposition, const std::string& otherwise) {
    return whom.empty() ? otherwise : preposition + whom;
  };
  if (report.kind == "connection_lost") return "lost its connection" + at(" to ", "s");
  if (report.kind == "timeout") return "got no bytes" + at(" from ", "") + " in time";
  if (report.kind == "handshake_failed") return "could not form the ring" + at(" with ", "");
  if (report.kind == "gone") return "finds nobody at the address" + at(" of ", "");
  if (report.kind == "state_mismatch") return "found states that differ and must not" + at(": ", "");
  if (report.kind == "state_lost") return "misses a part of the state that no member has";
  if (report.kind == "checkpoint_unreadable")
    return fmt::format("could not read the checkpoint of step {}", report.checkpoint_step);
  std::string text = report.kind;
  std::ranges::replace(text, '_', ' ');
  return fmt::format("reports \"{}\"{}", text, at(" of ", ""));
}

// The member that a report suspects; null: none.
const Member* suspected(const JobMembership& job, const FaultReport& report) {
  const auto& members = job.current.members;
  const bool known = report.suspect_rank >= 0 && report.suspect_rank < static_cast<int>(members.size());
  return known ? &members[report.suspect_rank] : nullptr;
}

std::string named(const JobMembership& job, int rank) {
  return fmt::format("{} (rank {})", job.current.members[rank].worker, rank);
}

std::string evidence(const JobMembership& job, const FaultReport& report) {
  const std::string whom = suspected(job, report) != nullptr ? named(job, report.suspect_rank) : "";
  if (report.kind == "state_diverged") return "state diverged" + (whom.empty() ? "" : " at " + whom);  // all of them report it
  return fmt::format("{} (rank {}) {}", report.worker, rank_in(job.current, report.worker, report.incarnation),
                     seen_in_words(report, whom));
}

void suspect(Turn& turn, const FaultReport& report) {
  const Member* const member = suspected(turn.job, report);
  if (member == nullptr || member->worker == report.worker) return;
  const auto found = turn.job.participants.find(member->worker);
  if (found == turn.job.participants.end()) return;
  Participant& p = found->second;
  if (p.member.incarnation != member->incarnation || is_prepared(turn.job, p)) return;
  if (p.suspected_ms >= 0 && (p.gone || !report.suspect_gone)) return;
  p.suspected_ms = turn.now;
  p.gone = report.suspect_gone;
  p.suspicion = fmt::format("{} {}{}", report.worker, seen_in_words(report, "it"),
                            p.gone ? ", whose address refuses connections now" : "");
}

bool is_known_gone(const JobMembership& job, const FaultReport& report) {
  const Member* const member = suspected(job, report);
  if (member == nullptr) return false;
  const auto found = job.participants.find(member->worker);
  return found == job.participants.end() || found->second.member.incarnation != member->incarnation || found->second.gone;
}

bool was_told_diverged(const JobMembership& job, const FaultReport& report) {
  const Member* const member = suspected(job, report);
  return member != nullptr && job.diverged_in.contains({member->worker, job.current.number});
}

// Most members agree on the state and one does not: it has dropped what it held and takes theirs. A worker that goes wrong
// again and again has bad memory, or computes wrong: it is not asked again.
void on_diverged(Turn& turn, const FaultReport& report) {
  JobMembership& job = turn.job;
  const Member* const member = suspected(job, report);
  if (member == nullptr) return;
  const std::string worker = member->worker;
  job.diverged_in.insert({worker, job.current.number});
  const auto times = std::ranges::count_if(job.diverged_in, [&](const auto& entry) { return entry.first == worker; });
  const bool refused = times >= kDivergencesMax;
  turn.note("state_diverged",
            fmt::format(
                "the state of {} (rank {}) differs from that of the other members, who agree: {}", worker, report.suspect_rank,
                refused ? fmt::format("that is {} times now, and it is not used for this job any more; test its memory", times)
                        : "it drops what it holds and takes theirs. Steps since the last common hash may have used "
                          "gradients that it computed from a wrong state"),
            worker);
  const auto found = job.participants.find(worker);
  if (refused && found != job.participants.end())
    refuse(turn, found->second, fmt::format("its state went wrong {} times while those of the others agreed", times),
           Refusing::kForGood);
}

// No state that a member holds counts any more. All members report it, and it is one event.
void distrust_memory(Turn& turn, const char* kind, const std::string& what_follows) {
  JobMembership& job = turn.job;
  if (job.distrusted_in == job.current.number) return;
  job.distrusted_in = job.current.number;
  ++job.lineage;
  turn.note(kind, what_follows);
}

}  // namespace

bool is_awaited(const JobMembership& job, const Participant& p) {
  // The members of an outrun generation are not known: every worker that is active in anything has to stop.
  const bool taking_part = is_outrun(job) ? p.status.phase == Phase::kActive : is_member(job, p);
  return taking_part && !p.left_out && !is_prepared(job, p);
}

std::string stopped_in_words(const std::string& worker) {
  return worker + " stopped";
}

void begin_fault(Turn& turn, const std::string& reason, const std::string& detail) {
  JobMembership& job = turn.job;
  if (std::ranges::find(job.why, reason) == job.why.end()) job.why.push_back(reason);
  const std::string in_full = detail.empty() ? reason : reason + ": " + detail;
  if (job.stage != Stage::kForming) {
    job.stage = Stage::kForming;
    job.forming_since_ms = turn.now;
    job.first_ready_ms = -1;
    job.counted = false;
  }
  job.cause = Cause::kFault;
  if (job.counted) return;
  job.counted = true;
  ++job.restarts;
  if (job.resumed_noted) job.halted_ms = turn.now;
  job.resumed_noted = false;
  job.reason = fmt::format("the next generation is being formed: {}", reason);
  turn.note("fault_reported", fmt::format("generation {} is over: {}", job.current.number, in_full));
}

void on_fault_report(Turn& turn, const FaultReport& report) {
  JobMembership& job = turn.job;
  if (is_dormant(job)) return;
  if (stale(job, report.worker, report.incarnation, report.generation, false)) return;
  if (report.kind == "silent") return on_silence(turn, report);
  if (report.kind == "state_diverged" && was_told_diverged(job, report)) return;
  if (report.kind == "gone" && is_known_gone(job, report)) return;  // every survivor finds it
  const std::string words = evidence(job, report);
  // Its status may have come first, with the same words: the report says more, it names the suspect.
  const bool told = std::erase(job.why, stopped_in_words(report.worker)) > 0;
  if (job.stage == Stage::kForming) {
    turn.note("fault_reported",
              fmt::format("more on the end of generation {}: {}{}{}", job.current.number, words,
                          told || report.detail.empty() ? "" : ": ", told ? "" : report.detail),
              report.worker);
  }
  begin_fault(turn, words, report.detail);
  if (report.kind == "checkpoint_unreadable") return on_unreadable(turn, report);
  if (report.kind == "state_mismatch") {  // states that should be equal are not: none of them is trusted
    return distrust_memory(turn, "memory_distrusted",
                           "the members' states differ where they must not: going back to the newest checkpoint");
  }
  if (report.kind == "state_lost")
    return distrust_memory(turn, "state_lost",
                           "every owner of a part of the state is gone: going back to the newest checkpoint");
  if (report.kind == "state_diverged") return on_diverged(turn, report);
  if (report.kind == "handshake_failed") on_unreached(job, job.current.members, report);
  suspect(turn, report);
}

// The next generation can form from the members' statuses before all reports on the last one are in. People are still told of a
// late report; it ends nothing.
void on_late_fault_report(Turn& turn, const FaultReport& report) {
  JobMembership& job = turn.job;
  if (is_ended(job.state) || report.kind == "silent" || report.kind == "gone" || report.generation != job.current.number - 1)
    return;
  turn.effects.emplace_back(
      Note{"fault_reported",
           fmt::format("more on the end of generation {}: {} says: {}", report.generation, report.worker, report.detail),
           report.worker, report.generation});
  if (report.kind == "handshake_failed") on_unreached(job, job.last_members, report);
  if (report.kind == "checkpoint_unreadable") second_doubt(job, report);
}

void on_gone(Turn& turn, const std::string& worker, const std::string& reason) {
  JobMembership& job = turn.job;
  const auto found = job.participants.find(worker);
  if (found == job.participants.end()) return;
  const Participant p = std::move(found->second);
  job.participants.erase(found);
  if (is_ended(job.state) || job.state == JobState::kPaused || !is_member(job, p)) return;
  const std::string words = fmt::format("{} was lost ({})", worker, reason);
  if (job.stage == Stage::kForming) {
    // Its neighbours' reports were evidence of this.
    const std::string whom = named(job, rank_in(job.current, worker, p.member.incarnation));
    std::erase_if(job.why, [&](const std::string& said) { return said.ends_with(whom) || said.ends_with(whom + " in time"); });
    if (std::ranges::find(job.why, words) == job.why.end()) job.why.push_back(words);
    return;
  }
  // A member that had already stopped in the orderly way has handed everything over.
  if (job.stage == Stage::kYielding && is_prepared(job, p)) return;
  begin_fault(turn, words);
}

void give_up_on_silent(Turn& turn) {
  JobMembership& job = turn.job;
  for (auto& [worker, p] : job.participants) {
    if (!is_awaited(job, p)) continue;
    // A suspect that lives answers its fence well within this.
    const Millis suspect_ms = p.gone ? kGoneMs : answer_time(p);
    const bool silent_suspect = p.suspected_ms >= 0 && p.heard_ms <= p.suspected_ms &&
                                turn.now >= std::max(p.suspected_ms, turn.listening_since_ms) + suspect_ms;
    const Millis limit_ms = p.unheard ? std::max(answer_limit(job), kGraceMs) : answer_limit(job);
    const bool too_late = turn.now >= std::max(job.forming_since_ms, turn.listening_since_ms) + limit_ms;
    if (!silent_suspect && !too_late) continue;
    p.left_out = true;
    p.left_out_ms = turn.now;
    turn.note(
        "worker_left_out",
        silent_suspect
            ? fmt::format("{} is left out of the next generation: {}, and it has not been heard of since", worker, p.suspicion)
            : fmt::format("{} is left out of the next generation: it did not stop within {:.1f} s of being told to", worker,
                          static_cast<double>(limit_ms) / 1000),
        worker);
  }
}

void free_stuck(Turn& turn) {
  std::vector<std::string> stuck;
  for (const auto& [worker, p] : turn.job.participants) {
    if (p.left_out && p.status.phase == Phase::kActive && turn.now >= p.left_out_ms + kStuckMs) stuck.push_back(worker);
  }
  for (const std::string& worker : stuck) {
    turn.free(worker,
              fmt::format("it was left out, and has not stopped in {} s since: its place is for another", kStuckMs / 1000));
  }
}

}  // namespace holdfast::rendezvous
