#include "rendezvous/api/jobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"
#include "rendezvous/http/etags.h"
#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/queries/waits_for.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

// `wanted`: "key=value", or "key" for any value.
bool has_label(const JobSpec& spec, const std::string& wanted) {
  const size_t equals = wanted.find('=');
  const auto found = spec.labels.find(wanted.substr(0, equals));
  return found != spec.labels.end() && (equals == std::string::npos || found->second == wanted.substr(equals + 1));
}

constexpr int64_t kReplicasMax = 65536;  // workers of a job that serves, as in its spec's max_nodes

// The job gets as many workers as `nodes` says, even when more are idle, unless the body gives max_nodes too. A min_nodes that
// the body does not give is lowered to `nodes`.
tl::expected<Coordinator::Scale, std::vector<FieldError>> read_scale(const Json& body, const JobMembership& m) {
  const int64_t most = m.spec.serves() ? kReplicasMax : m.spec.dealt_units();
  const std::string why = m.spec.serves() ? ""
                                          : fmt::format(" (each worker needs one of the {} {} in a step)", most,
                                                        m.spec.sync_every > 1 ? "replicas" : "microbatches");
  std::vector<FieldError> errors;
  Coordinator::Scale wanted{m.min_nodes, m.nodes, m.max_nodes};
  if (!body.is_object() || body.empty()) {
    return tl::unexpected(std::vector<FieldError>{{"nodes", "say how many workers are wanted: {\"nodes\": 3}"}});
  }
  for (const auto& item : body.items()) {
    const std::string& field = item.key();
    if (field == "replicas") {
      if (!item.value().is_number_integer() || item.value() < 1)
        errors.push_back(
            FieldError{field, fmt::format("must be a whole number from 1 on, not {}", item.value().dump().substr(0, 40))});
      else
        wanted.replicas = item.value();
      continue;
    }
    int64_t* target = field == "nodes"       ? &wanted.nodes
                      : field == "min_nodes" ? &wanted.min_nodes
                      : field == "max_nodes" ? &wanted.max_nodes
                                             : nullptr;
    if (target == nullptr) {
      errors.push_back(FieldError{field.substr(0, 64), "no such field; there are nodes, min_nodes, max_nodes and replicas"});
    } else if (!item.value().is_number_integer() || item.value() < 1 || item.value() > most) {
      errors.push_back(FieldError{
          field, fmt::format("must be a whole number from 1 to {}{}, not {}", most, why, item.value().dump().substr(0, 40))});
    } else {
      *target = item.value();
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  const bool nodes = body.contains("nodes");
  if (nodes && !body.contains("max_nodes")) wanted.max_nodes = wanted.nodes;
  if (!nodes) wanted.nodes = std::min(wanted.nodes, wanted.max_nodes);
  if (!body.contains("min_nodes")) wanted.min_nodes = std::min(wanted.min_nodes, wanted.nodes);
  if (wanted.nodes > wanted.max_nodes)
    errors.push_back(FieldError{"max_nodes", fmt::format("{} is below nodes, {}", wanted.max_nodes, wanted.nodes)});
  if (wanted.min_nodes > wanted.nodes)
    errors.push_back(FieldError{"min_nodes", fmt::format("{} is above nodes, {}", wanted.min_nodes, wanted.nodes)});
  if (wanted.replicas > wanted.max_nodes)
    errors.push_back(
        FieldError{"replicas", fmt::format("{} is above the workers that the job may have, {}: choose at most {}, or "
                                           "raise max_nodes",
                                           wanted.replicas, wanted.max_nodes, wanted.max_nodes)});
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return wanted;
}

// Whether a stop is to write a checkpoint. It does where nothing is said.
Outcome<bool> read_stop(const HttpRequest& request) {
  if (request.body.empty()) return true;
  const auto body = read_json(request);
  if (!body) return tl::unexpected(body.error());
  if (body->is_object() && body->empty()) return true;
  if (body->is_object() && body->size() == 1 && body->contains("checkpoint") && (*body)["checkpoint"].is_boolean())
    return (*body)["checkpoint"].get<bool>();
  return tl::unexpected(bad_field(
      "checkpoint", fmt::format("a stop takes {{\"checkpoint\": false}} or nothing, not {}", json_text(*body).substr(0, 60))));
}

}  // namespace

void JobsApi::get_jobs(Call& call) {
  const auto page = page_of(call.request);
  if (!page) return call.answer(page.error());
  const std::string name = text_query(call.request, "name"), state = text_query(call.request, "state");
  const std::string label = text_query(call.request, "label");
  try {
    if (!state.empty()) job_state_from(state);
  } catch (const std::invalid_argument& error) {
    return call.answer(bad_field("state", error.what()));
  }
  const WaitingRoom room(state_);
  Json list = Json::array();
  int64_t next = 0;
  for (auto it = state_.jobs().rbegin(); it != state_.jobs().rend(); ++it) {  // newest first
    const Job& job = *it->second;
    if (page->after > 0 && job.number >= page->after) continue;
    if (!name.empty() && job.membership->spec.name != name) continue;
    if (!state.empty() && job_state_name(job.membership->state) != state) continue;
    if (!label.empty() && !has_label(job.membership->spec, label)) continue;
    if (static_cast<int64_t>(list.size()) == page->limit) {
      next = job.number + 1;
      break;
    }
    list.push_back(summarize_job(room, job));
  }
  call.answer(json_answer(200, {{"jobs", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

void JobsApi::get_job(Call& call) {
  const Job* job = need_job(state_, call);
  if (job == nullptr) return;
  const Json shown = show_job(state_, *job);
  const std::string etag = job_etag(shown);
  const auto known = call.request.headers.find("if-none-match");
  const bool unchanged = known != call.request.headers.end() && none_match(known->second, etag);
  HttpResponse response = unchanged ? empty_answer(304) : json_answer(200, shown);
  response.headers["ETag"] = etag;
  call.answer(std::move(response));
}

// True when the job is not as the caller saw it: the call is answered 412 then.
bool JobsApi::refuse_unseen(const Call& call, const Job& job) {
  const auto seen = call.request.headers.find("if-match");
  if (seen == call.request.headers.end() || match_for_steering(seen->second, job_etag(show_job(state_, job)))) return false;
  call.answer(problem(412, "changed_meanwhile",
                      fmt::format("job {} is not as you saw it (If-Match): it is {} now; look again, then decide", job.id,
                                  job_state_name(job.membership->state))));
  return true;
}

void JobsApi::answer_steered(const Call& call, const Job& job) {
  const Json shown = show_job(state_, job);
  HttpResponse response = json_answer(202, shown);
  response.headers["ETag"] = job_etag(shown);
  call.answer(std::move(response));
}

void JobsApi::steer(Call& call, const std::function<OrRefusal<void>(const std::string& job)>& verb) {
  const Job* job = need_job(state_, call);
  if (job == nullptr || refuse_unseen(call, *job)) return;
  const auto done = verb(job->id);
  if (!done) return call.answer(done.error());
  answer_steered(call, *job);
}

void JobsApi::post_stop(Call& call) {
  const auto checkpoint = read_stop(call.request);
  if (!checkpoint) return call.answer(checkpoint.error());
  steer(call, [&](const std::string& job) { return state_.stop(job, *checkpoint); });
}
void JobsApi::post_pause(Call& call) {
  steer(call, [&](const std::string& job) { return state_.pause(job); });
}
void JobsApi::post_resume(Call& call) {
  steer(call, [&](const std::string& job) { return state_.resume(job); });
}

void JobsApi::post_scale(Call& call) {
  const Job* job = need_job(state_, call);
  if (job == nullptr || refuse_unseen(call, *job)) return;
  const auto body = read_json(call.request);
  if (!body) return call.answer(body.error());
  const auto wanted = read_scale(*body, job->membership);
  if (!wanted) return call.answer(invalid_spec(wanted.error()));
  const auto done = state_.scale(call.arguments[0], *wanted);
  if (!done) return call.answer(done.error());
  answer_steered(call, *job);
}

void JobsApi::get_job_spec(Call& call) {
  Json fields = Json::array();
  for (const FieldRow& row : job_spec_table()) fields.push_back(show_field(row));
  call.answer(json_answer(200, {{"fields", std::move(fields)}}));
}

}  // namespace holdfast::rendezvous
