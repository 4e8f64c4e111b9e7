// Routes of jobs: submit, show, list, and what their owners ask of them.
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/dependency.h"
#include "rendezvous/etags.h"
#include "rendezvous/object_folders.h"
#include "rendezvous/protocol/job_spec_fields.h"
#include "rendezvous/protocol/plain_text.h"
#include "rendezvous/resume.h"
#include "rendezvous/scheduler_requirements.h"
#include "rendezvous/service_impl.h"
#include "rendezvous/views.h"
#include "rendezvous/waits_for.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kKeyBytesMax = 255;

Problem invalid_spec(std::vector<FieldError> errors) {
  std::string detail;
  for (const FieldError& error : errors)
    detail += fmt::format("{}{}: {}", detail.empty() ? "" : "; ", error.field, error.message);
  Problem bad = problem(400, "invalid_spec", detail);
  bad.errors = std::move(errors);
  return bad;
}

// What others would see of it on their terminals. Not a rule of specs: stored ones must be read whatever they hold.
std::vector<FieldError> unfit_words(const JobSpec& spec) {
  std::vector<FieldError> errors;
  if (has_control_characters(spec.name)) errors.push_back({"name", "has control characters in it"});
  for (const auto& [key, value] : spec.labels) {
    if (has_control_characters(key) || has_control_characters(value))
      errors.push_back({"labels", "one has control characters in it"});
  }
  return errors;
}

std::string idempotency_key(const HttpRequest& request) {
  const auto found = request.headers.find("idempotency-key");
  return found == request.headers.end() ? "" : found->second;
}

// "key=value", or "key" whatever its value.
bool has_label(const JobSpec& spec, const std::string& wanted) {
  const size_t equals = wanted.find('=');
  const auto found = spec.labels.find(wanted.substr(0, equals));
  return found != spec.labels.end() && (equals == std::string::npos || found->second == wanted.substr(equals + 1));
}

// What nobody can call wrong, but whoever submits it may not have meant.
std::vector<std::string> warnings_of(const JobSpec& spec, int64_t workers) {
  std::vector<std::string> warnings;
  if (workers == 0) warnings.push_back("no worker is there: the job waits until holdfast-worker runs somewhere");
  if (workers > 0 && workers < spec.min_nodes)
    warnings.push_back(
        fmt::format("min_nodes is {}, and {} worker{} there", spec.min_nodes, workers, workers == 1 ? " is" : "s are"));
  if (spec.checkpoint_every == 0) warnings.push_back("checkpoint_every is 0: until the end there is nothing to go back to");
  return warnings;
}

// What a job of this id takes from others to begin, by the plan; "" for nothing.
std::string taken_in_words(const Plan& plan, const std::string& id) {
  std::map<std::string, int> from;
  for (const TakenBack& taken : plan.taken_back) {
    if (taken.by == id) ++from[taken.job];
  }
  std::vector<std::string> parts;
  for (const auto& [job, count] : from)
    parts.push_back(fmt::format("takes {} worker{} from {}", count, count == 1 ? "" : "s", job));
  for (const Preemption& preemption : plan.preemptions) {
    if (preemption.by == id) parts.push_back(fmt::format("preempts {}", preemption.job));
  }
  return in_words(parts);
}

// The number asked for is what the job gets, also when more workers are idle, unless max_nodes is given too; a minimum
// that nobody mentioned gives way to it.
tl::expected<Coordinator::Scale, std::vector<FieldError>> read_scale(const Json& body, const JobMembership& m) {
  const int64_t most = m.spec.units();
  std::vector<FieldError> errors;
  Coordinator::Scale wanted{m.min_nodes, m.nodes, m.max_nodes};
  if (!body.is_object() || body.empty()) {
    return tl::unexpected(std::vector<FieldError>{{"nodes", "say how many workers are wanted: {\"nodes\": 3}"}});
  }
  for (const auto& item : body.items()) {
    const std::string& field = item.key();
    int64_t* target = field == "nodes"       ? &wanted.nodes
                      : field == "min_nodes" ? &wanted.min_nodes
                      : field == "max_nodes" ? &wanted.max_nodes
                                             : nullptr;
    if (target == nullptr) {
      errors.push_back(FieldError{field.substr(0, 64), "no such field; there are nodes, min_nodes and max_nodes"});
    } else if (!item.value().is_number_integer() || item.value() < 1 || item.value() > most) {
      errors.push_back(FieldError{
          field, fmt::format("must be a whole number from 1 to {} (each worker needs one of the {} {} in a step), not {}", most,
                             most, m.spec.sync_every > 1 ? "replicas" : "microbatches", item.value().dump().substr(0, 40))});
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
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return wanted;
}

}  // namespace

const Job* Service::Impl::need_job(const Call& call) {
  const Job* job = state_.find_job(call.arguments[0]);
  if (job == nullptr) answer(call, no_such_job(call.arguments[0]));
  return job;
}

bool Service::Impl::answer_repeated(const Call& call, const Json& request) {
  const std::string key = idempotency_key(call.request);
  if (key.empty()) return false;
  if (key.size() > kKeyBytesMax) {
    answer(call, bad_field("Idempotency-Key", fmt::format("has {} bytes, at most {} are taken", key.size(), kKeyBytesMax)));
    return true;
  }
  const auto known = state_.store().find_idempotency(key);
  if (!known) return false;
  if (known->request != request.dump()) {
    answer(call, problem(409, "idempotency_conflict",
                         fmt::format("Idempotency-Key \"{}\" was used for another submission, which became job {}: take a "
                                     "new key for a new job",
                                     key, known->job)));
    return true;
  }
  HttpResponse response = json_answer(201, show_job(state_, *state_.find_job(known->job)));
  response.headers["Location"] = "/v1/jobs/" + known->job;
  answer(call, std::move(response));
  return true;
}

void Service::Impl::post_job(Call& call) {
  const auto request = read_json(call.request);
  if (!request) return answer(call, request.error());
  const auto dry_run = flag_query(call.request, "dry_run");
  if (!dry_run) return answer(call, dry_run.error());
  if (!*dry_run && answer_repeated(call, *request)) return;
  auto spec = parse_job_spec(*request);
  if (!spec) return answer(call, invalid_spec(std::move(spec.error())));
  if (auto unfit = unfit_words(*spec); !unfit.empty()) return answer(call, invalid_spec(std::move(unfit)));
  const auto dependency = find_dependency(state_, *spec);
  if (!dependency) return answer(call, dependency.error());
  if (!dependency->resume_from.empty()) spec->resume_from = dependency->resume_from;
  if (spec->resume_from.empty() || dependency->resumes_later) return create_job(call, *spec, *request, {}, "");
  auto plan = plan_resume(state_, *spec);
  if (!plan) return answer(call, plan.error());
  // Verifying reads every byte of the checkpoint: not on this thread.
  const bool posted = verifying_.post(
      [this, call, spec = *spec, request = *request, plan = std::move(*plan)] {
        auto choice = verify_resume(plan, spec, options_.data_dir, options_.checkpoint_roots);
        const bool taken = enqueue([this, call, spec, request, choice = std::move(choice)] {
          if (!choice) return answer(call, choice.error());
          const ActingFor acting(state_, call);
          create_job(call, spec, request, choice->sources, choice->note);
        });
        if (!taken) call.reply(problem_answer(problem(503, "unavailable", "the service is stopping: try again")));
      },
      [call](const std::string& why) { call.reply(problem_answer(problem(500, "internal_error", why))); });
  if (!posted) answer(call, problem(503, "unavailable", "too many checkpoints are being read: try again"));
}

// What a submission would do, and nothing is done.
void Service::Impl::answer_dry_run(const Call& call, const JobSpec& spec, const std::string& after,
                                   const std::string& resume_note) {
  int64_t alive = 0, free = 0;  // of those that it could have
  for (const auto& [id, worker] : state_.workers()) {
    if (worker.life != Worker::Life::kAlive || worker.leaving()) continue;
    if (!satisfies(worker.registration, spec.requirements)) continue;
    ++alive;
    if (worker.job.empty()) ++free;
  }
  const char* fit = spec.requirements.empty() ? "" : " that satisfy what it requires";
  std::string would = fmt::format("wait until {} has succeeded", after);
  if (after.empty()) {
    const std::string id = state_.next_job_id();
    const Plan plan = state_.plan_with(spec);
    const std::string taken = taken_in_words(plan, id);
    would = !plan.waiting.contains(id) ? fmt::format("begin at once: {} of {} workers{} are free", free, alive, fit)
            : !taken.empty()           ? fmt::format("begin when others have made room: it {}", taken)
                                       : fmt::format("wait: it needs {} worker{}, and {} of {}{} are free", spec.min_nodes,
                                           spec.min_nodes == 1 ? "" : "s", free, alive, fit);
  }
  if (!resume_note.empty()) would += "; " + resume_note;
  answer(call, json_answer(200, {{"spec", to_json(spec)}, {"warnings", warnings_of(spec, alive)}, {"would", would}}));
}

void Service::Impl::create_job(const Call& call, const JobSpec& spec, const Json& request,
                               const std::vector<StateSource>& resume, const std::string& note) {
  const bool dry_run = flag_query(call.request, "dry_run").value_or(false);
  if (!dry_run && answer_repeated(call, request)) return;  // a twin came first while this one's checkpoint was verified
  const auto dependency = find_dependency(state_, spec);   // again: the other job may have ended since
  if (!dependency) return answer(call, dependency.error());
  if (dry_run) return answer_dry_run(call, spec, dependency->job, note);
  // First, so that no job is there without it; a folder without a job, after a crash in between, is the next job's.
  if (const auto made = make_objects_folder(options_.data_dir, state_.next_job_id()); !made)
    return answer(call, storage_problem(made.error()));
  const Job& job = state_.submit(spec, resume, note, dependency->job);
  if (const std::string key = idempotency_key(call.request); !key.empty())
    state_.write().save_idempotency({key, request.dump(), job.id});
  state_.settle();
  HttpResponse response = json_answer(201, show_job(state_, job));
  response.headers["Location"] = "/v1/jobs/" + job.id;
  answer(call, std::move(response));
}

void Service::Impl::get_jobs(Call& call) {
  const auto page = page_of(call.request);
  if (!page) return answer(call, page.error());
  const std::string name = text_query(call.request, "name"), state = text_query(call.request, "state");
  const std::string label = text_query(call.request, "label");
  try {
    if (!state.empty()) job_state_from(state);
  } catch (const std::invalid_argument& error) {
    return answer(call, bad_field("state", error.what()));
  }
  const WaitingRoom room(state_);
  Json list = Json::array();
  int64_t next = 0;
  for (auto it = state_.jobs().rbegin(); it != state_.jobs().rend(); ++it) {  // newest first
    const Job& job = *it->second;
    if (page->after > 0 && job.number >= page->after) continue;
    if (!name.empty() && job.membership.spec.name != name) continue;
    if (!state.empty() && job_state_name(job.membership.state) != state) continue;
    if (!label.empty() && !has_label(job.membership.spec, label)) continue;
    if (static_cast<int64_t>(list.size()) == page->limit) {
      next = job.number + 1;
      break;
    }
    list.push_back(summarize_job(room, job));
  }
  answer(call, json_answer(200, {{"jobs", std::move(list)}, {"next_page_token", next_page_token(next)}}));
}

void Service::Impl::get_job(Call& call) {
  const Job* job = need_job(call);
  if (job == nullptr) return;
  const Json shown = show_job(state_, *job);
  const std::string etag = job_etag(shown);
  const auto known = call.request.headers.find("if-none-match");
  const bool unchanged = known != call.request.headers.end() && none_match(known->second, etag);
  HttpResponse response = unchanged ? empty_answer(304) : json_answer(200, shown);
  response.headers["ETag"] = etag;
  answer(call, std::move(response));
}

// Answers 412 itself when the job is not as the caller saw it.
bool Service::Impl::refuse_unseen(const Call& call, const Job& job) {
  const auto seen = call.request.headers.find("if-match");
  if (seen == call.request.headers.end() || match_for_steering(seen->second, job_etag(show_job(state_, job)))) return false;
  answer(call, problem(412, "changed_meanwhile",
                       fmt::format("job {} is not as you saw it (If-Match): it is {} now; look again, then decide", job.id,
                                   job_state_name(job.membership.state))));
  return true;
}

void Service::Impl::answer_steered(const Call& call, const Job& job) {
  const Json shown = show_job(state_, job);
  HttpResponse response = json_answer(202, shown);
  response.headers["ETag"] = job_etag(shown);
  answer(call, std::move(response));
}

void Service::Impl::steer(Call& call, Outcome<void> (Coordinator::*verb)(const std::string&)) {
  const Job* job = need_job(call);
  if (job == nullptr || refuse_unseen(call, *job)) return;
  const auto done = (state_.*verb)(job->id);
  if (!done) return answer(call, done.error());
  answer_steered(call, *job);
}

void Service::Impl::post_stop(Call& call) {
  steer(call, &Coordinator::stop);
}
void Service::Impl::post_pause(Call& call) {
  steer(call, &Coordinator::pause);
}
void Service::Impl::post_resume(Call& call) {
  steer(call, &Coordinator::resume);
}

void Service::Impl::post_scale(Call& call) {
  const Job* job = need_job(call);
  if (job == nullptr || refuse_unseen(call, *job)) return;
  const auto body = read_json(call.request);
  if (!body) return answer(call, body.error());
  const auto wanted = read_scale(*body, job->membership);
  if (!wanted) return answer(call, invalid_spec(wanted.error()));
  const auto done = state_.scale(call.arguments[0], *wanted);
  if (!done) return answer(call, done.error());
  answer_steered(call, *job);
}

void Service::Impl::get_job_spec(Call& call) {
  Json fields = Json::array();
  for (const FieldRow& row : job_spec_table()) fields.push_back(show_field(row));
  answer(call, json_answer(200, {{"fields", std::move(fields)}}));
}

}  // namespace holdfast::rendezvous
