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

// Of the data, and of the initial weights where they are not the seed's (messages.h).
std::pair<std::string, std::string> digests_of(const std::string& both) {
  const size_t weights = both.find(kWeightsDigest);
  if (weights == std::string::npos) return {both, ""};
  return {both.substr(0, weights), both.substr(weights + std::string_view(kWeightsDigest).size())};
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
  const auto [data, weights] = digests_of(p.status.data_digest);
  const auto [job_data, job_weights] = digests_of(job.data_digest);
  if (data == job_data && weights != job_weights) {
    const auto shown = [](const std::string& digest) { return digest.empty() ? "none" : digest; };
    return fmt::format("its initial weights differ: {} has digest {} there, {} at the others; give it the same files",
                       job.spec.init_from, shown(weights), shown(job_weights));
  }
  if (data != job_data) {
    return fmt::format("its training data differs: {} has digest {} there, {} at the others; give it the same file",
                       job.spec.train_data_path, data, job_data);
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
