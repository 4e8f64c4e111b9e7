#include "rendezvous/queries/dependency.h"

#include <fmt/format.h>

#include "rendezvous/protocol/rules/schedule.h"
#include "rendezvous/queries/resume.h"

namespace holdfast::rendezvous {
namespace {

// The job with this id, else the newest job with this name; null when there is neither.
const Job* find_by_id_or_name(const Coordinator& state, const std::string& word) {
  if (const Job* job = state.find_job(word)) return job;
  for (auto it = state.jobs().rbegin(); it != state.jobs().rend(); ++it) {
    if (it->second->membership->spec.name == word) return it->second.get();
  }
  return nullptr;
}

}  // namespace

OrRefusal<Dependency> find_dependency(const Coordinator& state, const JobSpec& spec) {
  if (spec.after.empty()) return Dependency{};
  const Job* first = find_by_id_or_name(state, spec.after);
  if (first == nullptr)
    return refuse_field(
        "after",
        fmt::format("there is no job \"{}\": give the id or the name of one, as `holdfast ls` shows them", spec.after));
  const JobMembership& m = first->membership;
  if (m.state == JobState::kSucceeded)
    return Dependency{"", false, resumes_from(spec, first->id) ? fmt::format("job:{}", first->id) : std::string()};
  if (is_ended(m.state)) {
    return refuse_field("after",
                        fmt::format("job {} is {} already, so this one could never begin: leave `after` out, or submit that "
                                    "one again first",
                                    first->id, job_state_name(m.state)));
  }
  if (!resumes_from(spec, first->id)) return Dependency{first->id, false, {}};
  if (const std::string why = cannot_go_on(to_json(m.spec), spec); !why.empty())
    return refuse_field("resume_from", fmt::format("job {} cannot be gone on from: {}", first->id, why));
  // Of a job that is counted in epochs its last step is not known yet, and 0 here: `Queue::begin_after` looks again.
  if (spec.total_steps > 0 && m.total_steps() > spec.total_steps) {
    return refuse_field("resume_from", fmt::format("job {} ends at step {}, which is beyond total_steps {}", first->id,
                                                   m.total_steps(), spec.total_steps));
  }
  if (m.total_steps() > 0 && spec.schedule_start > m.total_steps()) {
    const std::string last = fmt::format("step {}, the last of job {}", m.total_steps(), first->id);
    return refuse_field("schedule_start", beyond_in_words(spec.schedule_start, last, m.total_steps()));
  }
  return Dependency{first->id, true, {}};
}

}  // namespace holdfast::rendezvous
