#include "rendezvous/api/profiles/profiles.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/profiles/view.h"
#include "rendezvous/profile/trace.h"
#include "rendezvous/text/plural.h"
#include "rendezvous/text/text_bounds.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kTracesWaitingMax = 16;
constexpr int64_t kStepsOtherwise = 20;

Outcome<int64_t> read_steps(const HttpRequest& request) {
  if (request.body.empty()) return kStepsOtherwise;
  const auto body = read_json(request);
  if (!body) return tl::unexpected(body.error());
  if (!body->is_object()) return tl::unexpected(bad_field("", "expected an object such as {\"steps\": 20}"));
  for (const auto& item : body->items()) {
    if (item.key() != "steps") return tl::unexpected(bad_field(item.key().substr(0, 64), "no such field; there is steps"));
  }
  if (!body->contains("steps")) return kStepsOtherwise;
  const Json& steps = (*body)["steps"];
  const bool fits = steps.is_number_integer() && steps >= 1 && steps <= kProfileStepsMax;
  if (fits) return steps.get<int64_t>();
  return tl::unexpected(bad_field(
      "steps", fmt::format("must be a whole number from 1 to {}, not {}", kProfileStepsMax, steps.dump().substr(0, 40))));
}

HttpResponse trace_answer(const MergedProfile& merged, const std::string& job, const std::string& id) {
  HttpResponse response;
  response.body = trace_text(merged, fmt::format("{}, profile {}", job, id));
  response.headers["Content-Disposition"] = fmt::format("attachment; filename=\"{}-profile.json\"", job);
  return response;
}

}  // namespace

ProfilesApi::ProfilesApi(Turn& turn) : turn_(turn), merges_(1, ProfileBook::kProfilesMax), traces_(1, kTracesWaitingMax) {}

void ProfilesApi::post_profile(Call& call) {
  const Job* job = need_job(turn_.state, call);
  if (job == nullptr) return;
  const auto steps = read_steps(call.request);
  if (!steps) return call.answer(steps.error());
  const auto profile = turn_.state.begin_profile(job->id, *steps);
  if (!profile) return call.answer(profile.error());
  const ProfileOrder& order = (*profile)->order;
  turn_.state.journal().record({"profile_begun",
                                fmt::format("steps {} to {} are recorded on {}", order.from_step,
                                            order.from_step + order.steps - 1, counted((*profile)->ranks.size(), "rank")),
                                job->id});
  HttpResponse response = json_answer(202, show_profile(**profile));
  response.headers["Location"] = fmt::format("/v1/jobs/{}/profile", job->id);
  call.answer(std::move(response));
}

// The profile of the job that the path names. Null when there is none: the call is answered 404 then.
const Profile* ProfilesApi::need_profile(const Call& call) {
  const Job* job = need_job(turn_.state, call);
  if (job == nullptr) return nullptr;
  const Profile* profile = turn_.state.profiles().find(job->id);
  if (profile == nullptr) {
    call.answer(problem(404, "no_profile",
                        fmt::format("there is no profile of {}: the service keeps the newest {} in its memory alone, and none "
                                    "through a restart. POST /v1/jobs/{}/profile records one",
                                    job->id, ProfileBook::kProfilesMax, job->id)));
  }
  return profile;
}

void ProfilesApi::get_profile(Call& call) {
  if (const Profile* profile = need_profile(call)) call.answer(json_answer(200, show_profile(*profile)));
}

void ProfilesApi::get_trace(Call& call) {
  const Profile* profile = need_profile(call);
  if (profile == nullptr) return;
  const std::string wanted = text_query(call.request, "id");
  if (!wanted.empty() && wanted != profile->id) {
    return call.answer(problem(
        409, "stale_profile",
        fmt::format("profile {} of {} is gone: {} was begun after it", wanted.substr(0, 64), profile->job, profile->id)));
  }
  if (profile->state != Profile::State::kDone) {
    return call.answer(problem(409, "wrong_state",
                               fmt::format("profile {} of {} is {}: there is a trace when it is done", profile->id,
                                           profile->job, profile_state_name(profile->state))));
  }
  const bool posted = traces_.post(
      [merged = profile->merged, job = profile->job, id = profile->id, reply = call.reply] {
        reply(trace_answer(*merged, job, id));
      },
      [reply = call.reply](const std::string& why) { reply(problem_answer(problem(500, "internal_error", why))); });
  if (!posted) call.answer(problem(503, "unavailable", "too many traces are being written: try again"));
}

void ProfilesApi::post_part(Call& call) {
  auto part = read_body<ProfilePart>(call.request);
  if (!part) return call.answer(part.error());
  part->ended = shortened(std::move(part->ended), kReasonBytesMax);
  call.answer_empty(turn_.state.take_profile_part(call.arguments[0], *std::move(part)));
}

void ProfilesApi::merge_complete() {
  for (ProfileBook::ToMerge& work : turn_.state.profiles().take_complete()) {
    const auto parts = std::make_shared<std::vector<RankParts>>(std::move(work.parts));
    const auto back = [this, job = work.job, id = work.id, commands = turn_.commands](MergedProfile merged) {
      commands->add_result(
          [this, job, id, result = std::make_shared<const MergedProfile>(std::move(merged))] { note_merged(job, id, result); });
    };
    const auto failed = [back](const std::string& why) {
      MergedProfile nothing;
      nothing.failure = why;
      back(std::move(nothing));
    };
    if (!merges_.post([parts, back] { back(merge(std::move(*parts))); }, failed)) failed("too many profiles end at once");
  }
}

void ProfilesApi::note_merged(const std::string& job, const std::string& id, std::shared_ptr<const MergedProfile> merged) {
  const std::string words = merged->failure.empty() ? fmt::format("{} were recorded, {} to {}", counted(merged->steps, "step"),
                                                                  merged->first_step, merged->last_step)
                                                    : merged->failure;
  turn_.state.journal().record({merged->failure.empty() ? "profile_done" : "profile_failed", words, job});
  turn_.state.profiles().merged(job, id, std::move(merged));
}

}  // namespace holdfast::rendezvous
