// A member from whom nothing comes: it is asked, and lost when it does not answer.
//
// Its neighbour on the ring notices within a few steps' time, long before a lease ends; but it cannot know whether that member
// is frozen, cut off, or only waits for somebody else. The service can ask: a question is a new directive, and every worker
// answers a new directive at once, from a thread that does nothing else. So a false alarm costs one message and no step.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/turn.h"

namespace holdfast::rendezvous {
namespace {

constexpr Millis kAnswerMs = 500;    // for a message there and back; a process that runs answers within a few
constexpr Millis kUnheardMs = 3000;  // a worker that has not spoken since the service started may not have found it yet

}  // namespace

Millis answer_time(const Participant& participant) {
  return participant.unheard ? kUnheardMs : kAnswerMs;
}

void on_silence(Turn& turn, const FaultReport& report) {
  JobMembership& job = turn.job;
  const auto& members = job.current.members;
  if (job.stage == Stage::kForming || report.suspect_rank < 0 || report.suspect_rank >= static_cast<int>(members.size()))
    return;
  const Member& member = members[report.suspect_rank];
  const auto found = job.participants.find(member.worker);
  if (member.worker == report.worker || found == job.participants.end()) return;
  Participant& p = found->second;
  if (p.member.incarnation != member.incarnation || p.asked_ms >= 0) return;
  p.asked_ms = turn.now;
  ++p.question;
  p.silence = fmt::format("{} (rank {}) says: {}", report.worker, rank_in(job.current, report.worker, report.incarnation),
                          report.detail);
}

void judge_silence(Turn& turn) {
  JobMembership& job = turn.job;
  for (auto& [worker, p] : job.participants) {
    if (p.asked_ms < 0) continue;
    if (!is_member(job, p)) {
      p.asked_ms = -1;
    } else if (turn.now >= std::max(p.asked_ms, turn.listening_since_ms) + answer_time(p)) {
      p.suspected_ms = p.asked_ms;
      p.suspicion = fmt::format("it did not answer within {:.1f} s of being asked", static_cast<double>(answer_time(p)) / 1000);
      p.asked_ms = -1;
      begin_fault(turn,
                  fmt::format("{} (rank {}) is frozen or cut off: it answers neither its neighbour nor the service", worker,
                              rank_in(job.current, worker, p.member.incarnation)),
                  p.silence);
    }
  }
}

}  // namespace holdfast::rendezvous
