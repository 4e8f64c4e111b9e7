// The rules after the service's database was replaced by an older copy while the workers went on.
#include <algorithm>
#include <utility>

#include "tests/sim/rules/rules.h"

namespace holdfast::sim {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): messages, every line

void Rules::database_restored() {
  turn_lost();
  ++database_;
  over_.clear();
  for (const auto& [incarnation, code] : store_.durable().ended) over_.insert(incarnation);
  heard_.database_restored();
  before_.clear();
  current_before_.clear();
  for (const auto& [key, dealt] : dealt_) {
    int64_t& unknown = unknown_to_[std::get<0>(key)];
    unknown = std::max(unknown, std::get<2>(key));
  }
  for (auto& [job, past] : past_) {
    const Generation* newest = store_.durable().newest_generation(job);
    past.restored = true;
    past.generation = newest == nullptr ? 0 : newest->number;
  }
}

bool Rules::is_known(const Directive& join) const {
  const auto of_job = store_.durable().generations.find(join.job);
  if (of_job == store_.durable().generations.end()) return false;
  const auto found = of_job->second.find(join.generation);
  return found != of_job->second.end() && found->second.secret == join.secret;
}

// A number that any worker spoke of is never used again, though the database may have forgotten it.
void Rules::check_number(const std::string& job, int64_t generation) {
  const int64_t heard = heard_.newest(job);
  if (generation <= heard)
    broken("generation {} of {} forms, and a worker had spoken of generation {}", generation, job, heard);
}

// Unless a worker still holds a state of it, after the database was put back.
void Rules::check_begins_after(const std::string& job, const Generation& first) const {
  const std::string& after = specs_.at(job).after;
  if (after.empty() || first.source.kind != StateSource::Kind::kInitial) return;
  if (store_.durable().jobs.at(after).state != "succeeded") broken("{} begins before {} has succeeded", job, after);
}

}  // namespace holdfast::sim
