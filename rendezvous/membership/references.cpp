// References: what all members of a job must have in common, the training data and, where bits count, the numerics.
//
// The references are those that most of the ready workers have when the first generation forms (a tie goes to those who
// were ready first), so that one worker with a wrong file cannot keep the others out. From then on they are fixed.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>

#include "rendezvous/membership/turn.h"
#include "rendezvous/text/natural_order.h"

namespace holdfast::rendezvous {
namespace {

// Workers that have the same of these can work together.
struct References {
  std::string data_digest, numerics;
  auto operator<=>(const References&) const = default;
};

References references_of(const JobMembership& job, const std::string& worker) {
  const Participant& p = job.participants.at(worker);
  return {p.status.data_digest, job.spec.reduction == "exact" ? p.numerics : ""};
}

}  // namespace

void refuse(Turn& turn, const Participant& participant, const std::string& reason) {
  const Member member = participant.member;
  turn.note("worker_refused", fmt::format("{} cannot take part: {}", member.worker, reason), member.worker);
  turn.effects.emplace_back(Refused{member.worker, member.incarnation, reason});
  turn.free(member.worker, "refused: " + reason);
}

bool references_hold(const JobMembership& job) {
  return !job.began_at.empty();
}

std::string misfit(const JobMembership& job, const Participant& p) {
  if (p.status.data_digest != job.data_digest) {
    return fmt::format("its training data differs: {} has digest {} there, {} at the others; give it the same file",
                       job.spec.train_data_path, p.status.data_digest, job.data_digest);
  }
  if (job.spec.reduction == "exact" && p.numerics != job.numerics) {
    return fmt::format(
        "it computes other bits: its numerics are \"{}\", the job's are \"{}\"; use like workers, or submit with "
        "--reduction float",
        p.numerics, job.numerics);
  }
  return "";
}

std::vector<std::string> agree_on_references(JobMembership& job, std::vector<std::string> ready) {
  std::ranges::sort(ready, [&](const std::string& a, const std::string& b) {
    const Millis x = job.participants.at(a).prepared_ms, y = job.participants.at(b).prepared_ms;
    return x != y ? x < y : natural_less(a, b);
  });
  std::map<References, int> votes;
  for (const std::string& worker : ready) ++votes[references_of(job, worker)];
  const auto by_votes = [&](const std::string& worker) { return votes[references_of(job, worker)]; };
  const Participant& first = job.participants.at(*std::ranges::max_element(ready, {}, by_votes));  // the first such
  job.data_digest = first.status.data_digest;
  job.data_tokens = first.status.data_tokens;
  job.numerics = first.numerics;
  std::erase_if(ready, [&](const std::string& worker) { return misfit(job, job.participants.at(worker)).empty(); });
  return ready;
}

}  // namespace holdfast::rendezvous
