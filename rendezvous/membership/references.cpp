// References: what all members of a job must have in common, the data and, where bits count, the numerics.
//
// The references are those that most of the ready workers have when the first generation forms (a tie goes to those who
// were ready first), so that one worker with a wrong file cannot keep the others out. From then on they are fixed.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>

#include "rendezvous/membership/turn.h"
#include "rendezvous/protocol/data_source.h"
#include "rendezvous/protocol/training_digest.h"
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

// The training file or, of a mixture, the first source that differs: its words in the spec, and both digests.
std::string training_misfit(const JobSpec& spec, const std::vector<TrainingDigest::Source>& its,
                            const std::vector<TrainingDigest::Source>& jobs) {
  const auto said = [](const std::string& file, const std::string& there, const std::string& others) {
    return fmt::format("its training data differs: {} has digest {} there, {} at the others; give it the same file", file,
                       there, others);
  };
  const auto named = parse_training_sources(spec.train_data_path);
  if (named && named->size() == its.size() && named->size() == jobs.size()) {
    const auto differs = static_cast<size_t>(std::ranges::mismatch(its, jobs).in1 - its.begin());
    return said(to_text({named->at(differs)}), its[differs].digest, jobs[differs].digest);
  }
  return said(spec.train_data_path, to_text({its, "", ""}), to_text({jobs, "", ""}));
}

}  // namespace

void refuse(Turn& turn, const Participant& participant, const std::string& reason, Refusing how) {
  const Member member = participant.member;
  turn.note("worker_refused", fmt::format("{} cannot take part: {}", member.worker, reason), member.worker);
  turn.effects.emplace_back(Refused{member.worker, member.incarnation, reason, how == Refusing::kForGood});
  turn.free(member.worker, "refused: " + reason);
}

bool references_hold(const JobMembership& job) {
  return !job.began_at.empty();
}

std::string misfit(const JobMembership& job, const Participant& p) {
  const TrainingDigest its = parse_training_digest(p.status.data_digest), jobs = parse_training_digest(job.data_digest);
  const auto shown = [](const std::string& digest) { return digest.empty() ? "none" : digest; };
  if (job.spec.serves() && p.status.data_digest != job.data_digest) {
    return fmt::format("its model differs: {} has digest {} there, {} at the others; give it the same files",
                       job.spec.init_from, shown(p.status.data_digest), shown(job.data_digest));
  }
  if (its.sources != jobs.sources) return training_misfit(job.spec, its.sources, jobs.sources);
  if (its.validation != jobs.validation) {
    return fmt::format("its validation data differs: {} has digest {} there, {} at the others; give it the same file",
                       job.spec.valid_data_path, shown(its.validation), shown(jobs.validation));
  }
  if (its.weights != jobs.weights) {
    return fmt::format("its initial weights differ: {} has digest {} there, {} at the others; give it the same files",
                       job.spec.init_from, shown(its.weights), shown(jobs.weights));
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
