#include "rendezvous/queries/needed_checkpoints.h"

#include <set>

#include "rendezvous/protocol/initial_source.h"

namespace holdfast::rendezvous {

std::vector<int64_t> checkpoints_others_need(const Coordinator& state, const Job& job) {
  std::set<int64_t> needed;
  for (const auto& [number, other] : state.jobs()) {
    const JobMembership& m = *other->membership;
    if (other.get() == &job || is_ended(m.state)) continue;
    if (m.spec.serves() && m.spec.follow == "on") continue;
    if (const InitialSource begins = parse_initial_source(m.spec.init_from); begins.job == job.id) needed.insert(begins.step);
    if (!other->checkpoints.empty()) continue;
    for (const StateSource& source : m.resume) {
      if (source.kind == StateSource::Kind::kCheckpoint && source.job == job.id) needed.insert(source.step);
    }
  }
  return {needed.begin(), needed.end()};
}

}  // namespace holdfast::rendezvous
