#include "rendezvous/membership/invariants.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <variant>

namespace holdfast::rendezvous {
namespace {

// Whether a step of the job is its own: after a generation that went on from another job's checkpoint at that step none is.
bool has_steps_of_its_own(const JobMembership& job) {
  const StateSource& source = job.current.source;
  const bool of_another = source.kind == StateSource::Kind::kCheckpoint && source.job != job.job;
  return job.current.number > 0 && !(of_another && job.committed_step == source.step);
}

// The effects of one decision, in their order.
class Effects {
 public:
  Effects(const Beforehand& before, const JobMembership& job)
      : job_(job), before_(before), generation_(before.generation), step_(before.committed_step) {}

  void operator()(const Outrun& outrun) {
    must_hold(outrun.generation.number > generation_, [&] {
      return fmt::format("job {} jumps from generation {} to {}, which is no newer one", job_.job, generation_,
                         outrun.generation.number);
    });
    generation_ = outrun.generation.number;
    changed_ = true;
  }
  void operator()(const Formed& formed) {
    must_hold(!formed_ && formed.generation.number == generation_ + 1, [&] {
      return fmt::format("generation {} of job {} forms after generation {}", formed.generation.number, job_.job, generation_);
    });
    generation_ = formed.generation.number;
    formed_ = changed_ = true;
  }
  void operator()(const StepsCommitted& steps) {
    must_hold(steps.first > step_ && steps.last >= steps.first, [&] {
      return fmt::format("steps {} to {} of job {} are committed, and step {} was before", steps.first, steps.last, job_.job,
                         step_);
    });
    step_ = steps.last;
    writes_steps_ = true;
  }
  void operator()(const StepsVoided& steps) {
    must_hold(!voided_ && steps.first <= job_.committed_step + 1, [&] {
      return fmt::format("steps from {} on are voided, and job {} is at step {}", steps.first, job_.job, job_.committed_step);
    });
    step_ = steps.first - 1;
    voided_ = writes_steps_ = true;
  }
  template <typename Other>
  void operator()(const Other&) {}

  void require_agreement() const {
    must_hold(job_.current.number == generation_, [&] {
      return fmt::format("job {} is at generation {}, and what is written down is generation {}", job_.job, job_.current.number,
                         generation_);
    });
    must_hold(changed_ || (job_.current.secret == before_.secret && job_.current.members.size() == before_.members), [&] {
      return fmt::format("generation {} of job {} has other members than when it formed", generation_, job_.job);
    });
    must_hold(!writes_steps_ || job_.committed_step >= step_, [&] {
      return fmt::format("step {} of job {} is written down as committed, and the job is at step {}", step_, job_.job,
                         job_.committed_step);
    });
    const bool may_go_back = voided_ ? formed_ && job_.lineage > before_.lineage : !before_.has_own_steps;
    must_hold(job_.committed_step >= before_.committed_step || may_go_back, [&] {
      return fmt::format("job {} goes back from step {} to {}, and nothing is voided", job_.job, before_.committed_step,
                         job_.committed_step);
    });
  }
  bool formed() const { return formed_; }

 private:
  const JobMembership& job_;
  const Beforehand& before_;
  int64_t generation_, step_;
  bool formed_ = false, voided_ = false, writes_steps_ = false, changed_ = false;
};

void require_ranks(const JobMembership& job) {
  const Generation& current = job.current;
  std::set<std::string> seen;
  for (size_t rank = 0; rank < current.members.size(); ++rank) {
    const Member& member = current.members[rank];
    const auto found = job.participants.find(member.worker);
    must_hold(seen.insert(member.worker).second,
              [&] { return fmt::format("generation {} of job {} has {} twice", current.number, job.job, member.worker); });
    must_hold(found != job.participants.end() && found->second.member.incarnation == member.incarnation, [&] {
      return fmt::format("generation {} of job {} has {}, which is not of the job", current.number, job.job,
                         member.incarnation);
    });
    must_hold(found->second.seat == static_cast<int>(rank), [&] {
      return fmt::format("generation {} of job {} has {} as rank {}, and its seat is {}", current.number, job.job,
                         member.worker, rank, found->second.seat);
    });
  }
  const auto size = static_cast<int64_t>(seen.size());
  must_hold(size > 0 && size >= job.min_nodes && size <= job.max_nodes, [&] {
    return fmt::format("generation {} of job {} has {} members, and {} to {} are allowed", current.number, job.job, size,
                       job.min_nodes, job.max_nodes);
  });
}

void require_sound_generation(const JobMembership& job) {
  const Generation& current = job.current;
  require_ranks(job);
  must_hold(!current.secret.empty(),
            [&] { return fmt::format("generation {} of job {} has no secret", current.number, job.job); });
  must_hold(job.committed_step == current.source.step, [&] {
    return fmt::format("generation {} of job {} begins at step {}, and the job is at step {}", current.number, job.job,
                       current.source.step, job.committed_step);
  });
  const auto began = job.began_at.find(current.number);
  must_hold(current.lineage == job.lineage && began != job.began_at.end() && began->second == current.source.step,
            [&] { return fmt::format("where generation {} of job {} begins is not remembered", current.number, job.job); });
  if (current.source.kind != StateSource::Kind::kCheckpoint || current.source.job != job.job) return;
  const auto known = job.checkpoints.find(current.source.step);
  must_hold(known != job.checkpoints.end() && !known->second.unreadable, [&] {
    return fmt::format("generation {} of job {} is to begin from the checkpoint of step {}, which cannot be read",
                       current.number, job.job, current.source.step);
  });
}

}  // namespace

void broken_invariant(const std::string& sentence) {
  std::fprintf(stderr, "broken invariant: %s. This is a bug: the service ends before anything wrong is written down\n",
               sentence.c_str());
  std::fflush(stderr);
  std::abort();
}

Beforehand::Beforehand(const JobMembership& job)
    : state(job.state),
      generation(job.current.number),
      secret(job.current.secret),
      members(job.current.members.size()),
      committed_step(job.committed_step),
      lineage(job.lineage),
      restarts(job.restarts),
      has_own_steps(has_steps_of_its_own(job)) {}

void require_sound(const Beforehand& before, const Decision& decision) {
  const JobMembership& job = decision.state;
  Effects effects(before, job);
  for (const Effect& effect : decision.effects) std::visit(effects, effect);
  effects.require_agreement();
  if (effects.formed()) require_sound_generation(job);
  must_hold(job.lineage >= before.lineage && job.restarts >= before.restarts, [&] {
    return fmt::format("job {} counts down: lineage {} to {}, restarts {} to {}", job.job, before.lineage, job.lineage,
                       before.restarts, job.restarts);
  });
  must_hold(!is_ended(before.state) || (job.state == before.state && !effects.formed()), [&] {
    return fmt::format("job {} was {} and is {}", job.job, job_state_name(before.state), job_state_name(job.state));
  });
  const bool at_rest = is_ended(job.state) || job.state == JobState::kPaused;
  must_hold(!at_rest || job.state == before.state || job.participants.empty(), [&] {
    return fmt::format("job {} is {} and keeps {} workers", job.job, job_state_name(job.state), job.participants.size());
  });
  must_hold(job.stage == Stage::kForming || (job.state == JobState::kRunning && !job.current.members.empty()), [&] {
    return fmt::format("job {} is {}, and its generation {} of {} members is {}", job.job, job_state_name(job.state),
                       job.current.number, job.current.members.size(), stage_name(job.stage));
  });
}

}  // namespace holdfast::rendezvous
