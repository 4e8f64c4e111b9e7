#include "rendezvous/profile/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

using enum Profile::State;
using enum ProfileRefusal::Kind;

tl::unexpected<ProfileRefusal> refuse(ProfileRefusal::Kind kind, std::string code, std::string detail) {
  return tl::unexpected(ProfileRefusal{kind, std::move(code), std::move(detail)});
}

// The steps between the newest that is known and the first to record: the step under way, and as many as begin until all ranks
// have heard of it.
int64_t steps_ahead(double step_s) {
  constexpr double kLeadS = 0.7, kUnknownStepS = 0.2, kStepsMax = 2000;
  return 1 + static_cast<int64_t>(std::min(kStepsMax, std::ceil(kLeadS / (step_s > 0 ? step_s : kUnknownStepS))));
}

int64_t last_step(const ProfileOrder& order) {
  return order.from_step + order.steps - 1;
}

bool is_under_way(const Profile& profile) {
  return profile.state == kRecording || profile.state == kMerging;
}

bool is_of(const Profile::Rank& rank, const ProfilePart& part) {
  return rank.member.worker == part.worker && rank.member.incarnation == part.incarnation;
}

}  // namespace

const char* profile_state_name(Profile::State state) {
  switch (state) {
    case kRecording:
      return "recording";
    case kMerging:
      return "merging";
    case kDone:
      return "done";
    case kFailed:
      break;
  }
  return "failed";
}

ProfileBook::Outcome<void> ProfileBook::may_begin(const ProfiledJob& job, int64_t steps, int64_t from) const {
  if (!job.trains) {
    return refuse(
        kWrongState, "wrong_state",
        fmt::format("job {} is {}: a profile is recorded of one that trains; ask again when it does", job.id, job.state));
  }
  if (const Profile* other = find(job.id); other != nullptr && is_under_way(*other)) {
    return refuse(kWrongState, "profile_under_way",
                  fmt::format("profile {} of {} is being recorded, of steps {} to {}: wait for it", other->id, job.id,
                              other->order.from_step, last_step(other->order)));
  }
  const auto ranks = static_cast<int64_t>(job.members.size());
  if (ranks * steps * kSpansOfStepMax > kSpansMax) {
    return refuse(kInvalid, "too_many_steps",
                  fmt::format("steps: {} of {} are too many for one profile: at most {}", steps, counted(ranks, "rank"),
                              kSpansMax / kSpansOfStepMax / ranks));
  }
  if (job.total_steps > 0 && from > job.total_steps) {
    return refuse(kWrongState, "wrong_state",
                  fmt::format("job {} is at step {} of {}: it ends before a profile could begin", job.id, job.committed_step,
                              job.total_steps));
  }
  return {};
}

// Drops the oldest profile that is not under way, if there are as many as may be kept.
bool ProfileBook::make_room(const std::string& job) {
  by_job_.erase(job);
  if (by_job_.size() < kProfilesMax) return true;
  auto oldest = by_job_.end();
  for (auto it = by_job_.begin(); it != by_job_.end(); ++it) {
    const bool older = oldest == by_job_.end() || it->second.id < oldest->second.id;
    if (!is_under_way(it->second) && older) oldest = it;
  }
  if (oldest == by_job_.end()) return false;
  by_job_.erase(oldest);
  return true;
}

ProfileBook::Outcome<const Profile*> ProfileBook::begin(const ProfiledJob& job, int64_t steps, int64_t wall_ms) {
  const int64_t from = job.committed_step + 1 + steps_ahead(job.step_s);
  if (auto may = may_begin(job, steps, from); !may) return tl::unexpected(may.error());
  if (!make_room(job.id)) {
    return refuse(kWrongState, "too_many_profiles",
                  fmt::format("profiles of {} other jobs are being recorded: wait for one of them", kProfilesMax));
  }
  Profile& profile = by_job_[job.id];
  profile.id = fmt::format("p{:x}-{}", wall_ms, ++begun_);
  profile.job = job.id;
  profile.generation = job.generation;
  const auto ranks = static_cast<int64_t>(job.members.size());
  profile.order = {profile.id, from, job.total_steps > 0 ? std::min(steps, job.total_steps - from + 1) : steps,
                   std::min(kSpansOfRankMax, kSpansMax / ranks)};
  for (const Member& member : job.members) profile.ranks.push_back({member, {}, 0, false, ""});
  return &profile;
}

const Profile* ProfileBook::find(const std::string& job) const {
  const auto found = by_job_.find(job);
  return found == by_job_.end() ? nullptr : &found->second;
}

ProfileBook::Outcome<void> ProfileBook::take_part(const std::string& job, ProfilePart part) {
  const auto found = by_job_.find(job);
  if (found == by_job_.end() || found->second.id != part.profile || found->second.state != kRecording) {
    return refuse(kStale, "stale_profile",
                  fmt::format("profile {} of {} is not being recorded (any more)", part.profile.substr(0, 64), job));
  }
  Profile& profile = found->second;
  const auto rank = std::ranges::find_if(profile.ranks, [&](const Profile::Rank& each) { return is_of(each, part); });
  if (rank == profile.ranks.end()) {
    return refuse(kStale, "stale_profile",
                  fmt::format("{} is no member of generation {} of {}, of which {} is", part.worker, profile.generation, job,
                              profile.id));
  }
  if (rank->whole || std::ranges::find(rank->pieces, part.piece, &ProfilePart::piece) != rank->pieces.end()) return {};
  int64_t spans = 0;
  for (const ProfileTrack& track : part.tracks) spans += static_cast<int64_t>(track.spans.size());
  const int64_t room = profile.order.spans_max + profile.order.steps * kSpansOfStepMax - rank->spans;
  if (spans > room || (!rank->pieces.empty() && rank->pieces.front().pieces != part.pieces)) {
    return refuse(kInvalid, "bad_part",
                  fmt::format("piece {} of {} brings {} spans: {} more are taken, in as many pieces as the first one said",
                              part.piece, part.pieces, spans, std::max<int64_t>(0, room)));
  }
  rank->spans += spans;
  rank->missing.clear();
  rank->pieces.push_back(std::move(part));
  ++profile.pieces;
  rank->whole = static_cast<int64_t>(rank->pieces.size()) == rank->pieces.front().pieces;
  return {};
}

std::optional<ProfileOrder> ProfileBook::order_for(const std::string& job, int64_t generation) const {
  const Profile* profile = find(job);
  const bool wanted = profile != nullptr && profile->state == kRecording && profile->generation == generation;
  return wanted ? std::optional(profile->order) : std::nullopt;
}

std::vector<std::string> ProfileBook::recording() const {
  std::vector<std::string> jobs;
  for (const auto& [job, profile] : by_job_) {
    if (profile.state == kRecording) jobs.push_back(job);
  }
  return jobs;
}

bool ProfileBook::look(const ProfiledJob& job, int64_t now_ms, const std::function<bool(const Member&)>& lives) {
  const auto found = by_job_.find(job.id);
  if (found == by_job_.end() || found->second.state != kRecording) return false;
  Profile& profile = found->second;
  const bool ended = !job.trains || job.generation != profile.generation;
  if (profile.over.empty() && ended) profile.over = fmt::format("generation {} was over", profile.generation);
  if (profile.over.empty() && job.committed_step >= last_step(profile.order)) profile.over = "the last step was done";
  const bool came = std::exchange(profile.pieces_seen, profile.pieces) < profile.pieces;
  if (!profile.over.empty() && (came || !profile.waits_until)) profile.waits_until = now_ms + kPatienceMs;
  const bool impatient = profile.waits_until && now_ms >= *profile.waits_until;
  bool complete = true;
  for (Profile::Rank& rank : profile.ranks) {
    if (rank.whole) continue;
    if (!lives(rank.member)) {
      rank.missing = fmt::format("{} was lost while it recorded", rank.member.worker);
    } else if (impatient) {
      rank.missing = rank.pieces.empty()
                         ? fmt::format("nothing came of {} in {} s after {}; a worker of an older release knows no profiles",
                                       rank.member.worker, kPatienceMs / 1000, profile.over)
                         : fmt::format("{} of {} pieces came of {}, and no more for {} s", rank.pieces.size(),
                                       rank.pieces.front().pieces, rank.member.worker, kPatienceMs / 1000);
    }
    complete = complete && !rank.missing.empty();
  }
  if (complete) profile.state = kMerging;
  return complete;
}

std::vector<ProfileBook::ToMerge> ProfileBook::take_complete() {
  std::vector<ToMerge> all;
  for (auto& [job, profile] : by_job_) {
    if (profile.state != kMerging || std::exchange(profile.handed_over, true)) continue;
    ToMerge& work = all.emplace_back(ToMerge{job, profile.id, {}});
    for (Profile::Rank& rank : profile.ranks) {
      work.parts.push_back({rank.member.worker, std::exchange(rank.pieces, {}), rank.missing});
    }
  }
  return all;
}

void ProfileBook::merged(const std::string& job, const std::string& id, std::shared_ptr<const MergedProfile> result) {
  const auto found = by_job_.find(job);
  if (found == by_job_.end() || found->second.id != id) return;  // dropped meanwhile
  found->second.state = result->failure.empty() ? kDone : kFailed;
  found->second.reason = result->failure;
  found->second.merged = std::move(result);
}

}  // namespace holdfast::rendezvous
