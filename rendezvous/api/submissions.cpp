#include "rendezvous/api/submissions.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/answers/views.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/data_sets/pinned.h"
#include "rendezvous/queries/initial_weights.h"
#include "rendezvous/queries/resume.h"
#include "rendezvous/scheduler/requirements.h"
#include "rendezvous/text/list_in_words.h"
#include "rendezvous/text/plain_text.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr size_t kKeyBytesMax = 255;
constexpr size_t kVerifyingWaitingMax = 16;

// A new job may not have words that would disturb the terminals of others, nor moments that never change. These are no rules of
// specs, because stored specs must be read whatever they hold.
std::vector<FieldError> unfit_when_new(const JobSpec& spec) {
  std::vector<FieldError> errors;
  for (const auto& [name, beta] : {std::pair("beta1", spec.beta1), std::pair("beta2", spec.beta2)}) {
    if (static_cast<float>(beta) >= 1)
      errors.push_back(
          {name, fmt::format("{} is 1 in float32, with which nothing is learned: choose at most 0.9999999", beta)});
  }
  if (has_control_characters(spec.name)) errors.push_back({"name", "has control characters in it"});
  for (const auto& [key, value] : spec.labels) {
    if (has_control_characters(key) || has_control_characters(value))
      errors.push_back({"labels", "one has control characters in it"});
  }
  return errors;
}

// People who ask for 16 bits often mean the network's.
std::string warning_of_wide_wire(const Json& request, const JobSpec& spec) {
  const bool alone = spec.nodes == 1 && spec.max_nodes == 1;
  if (!request.contains("dtype") || request.contains("wire_dtype") || spec.dtype == "float32" || alone) return "";
  const bool exact = spec.reduction == "exact";
  return fmt::format(
      "dtype {} is the type of computing; gradients go over the network in {}, 4 bytes each: wire_dtype {} sends {}",
      spec.dtype, spec.wire_dtype, exact ? "int16" : "bfloat16", exact ? "half as many and is as exact" : "half as many");
}

// Specs that are right, but perhaps not what the user meant.
// `plain`: other machines reach the service without TLS.
std::vector<std::string> warnings_of(const Json& request, const JobSpec& spec, bool plain) {
  std::vector<std::string> warnings;
  if (spec.serves()) return warnings;
  if (spec.ring_tls == "on" && plain) {
    warnings.push_back(
        "ring_tls encrypts with keys that workers get from this service, and they get them in plain bytes: start it with "
        "--tls_cert and --tls_key, or whoever listens to them can read the ring, too");
  }
  if (std::string wide = warning_of_wide_wire(request, spec); !wide.empty()) warnings.push_back(std::move(wide));
  if (spec.checkpoint_every == 0) warnings.push_back("checkpoint_every is 0: until the end there is nothing to go back to");
  return warnings;
}

// A run that ended at its lowest rate, and goes on in the middle of a longer schedule.
std::string warning_of_jump(const Coordinator& state, const JobSpec& spec, const std::vector<StateSource>& resume) {
  const Job* before = nullptr;
  int64_t step = 0;
  if (!resume.empty()) {
    before = resume.front().job.empty() ? nullptr : state.find_job(resume.front().job);
    step = resume.front().step;
  } else if (const auto dependency = find_dependency(state, spec); dependency && dependency->resumes_later) {
    before = state.find_job(dependency->job);
    step = before == nullptr ? 0 : before->membership->total_steps();
  }
  if (before == nullptr || spec.lr_schedule == "constant" || before->membership->spec.lr_schedule == "constant") return "";
  if (spec.schedule_start == step) return "";
  const int64_t end = before->membership->total_steps();
  // A warm-up below 0 follows from the number of steps, which is not known yet.
  const bool has_fallen = spec.lr_schedule != "wsd" && spec.decay_steps > 0 && spec.warmup_steps >= 0 &&
                          step >= spec.schedule_start + spec.warmup_steps + spec.decay_steps;
  if (has_fallen || end == 0 || step < end || (spec.total_steps > 0 && spec.total_steps <= end)) return "";
  return fmt::format(
      "job {} ends at step {}, at its min_lr, and the rate jumps to where the longer schedule is there: give "
      "schedule_start {} to begin it anew",
      before->id, step, step);
}

std::vector<std::string> warnings_of_resume(const Coordinator& state, const JobSpec& spec,
                                            const std::vector<StateSource>& resume) {
  std::vector<std::string> warnings;
  if (!spec.serves() && !resume.empty() && resume.front().step == spec.total_steps) {
    warnings.push_back(
        fmt::format("total_steps is {}, and the checkpoint is of that step: there is nothing left to train", spec.total_steps));
  }
  if (std::string jump = warning_of_jump(state, spec, resume); !jump.empty()) warnings.push_back(std::move(jump));
  return warnings;
}

// The same of what is there just now.
std::vector<std::string> warnings_of_workers(const JobSpec& spec, int64_t workers) {
  std::vector<std::string> warnings;
  if (workers == 0) warnings.push_back("no worker is there: the job waits until holdfast-worker runs somewhere");
  if (workers > 0 && workers < spec.min_nodes)
    warnings.push_back(
        fmt::format("min_nodes is {}, and {} worker{} there", spec.min_nodes, workers, workers == 1 ? " is" : "s are"));
  return warnings;
}

// The workers that the plan takes from other jobs so that this one can begin; "" for none.
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

// The parts of a submission that need no look at jobs: body, dry_run, key. The spec is not read yet.
Outcome<Submission> read_submission(const HttpRequest& request) {
  Submission submission;
  auto json = read_json(request);
  if (!json) return tl::unexpected(json.error());
  submission.request = *std::move(json);
  const auto dry_run = flag_query(request, "dry_run");
  if (!dry_run) return tl::unexpected(dry_run.error());
  submission.dry_run = *dry_run;
  const auto key = request.headers.find("idempotency-key");
  if (submission.dry_run || key == request.headers.end()) return submission;
  submission.key = key->second;
  if (submission.key.size() > kKeyBytesMax) {
    return tl::unexpected(
        bad_field("Idempotency-Key", fmt::format("has {} bytes, at most {} are taken", submission.key.size(), kKeyBytesMax)));
  }
  return submission;
}

HttpResponse created(const Coordinator& state, const Job& job, const Json& request, bool plain) {
  Json shown = show_job(state, job);
  std::vector<std::string> warnings = warnings_of(request, job.membership->spec, plain);
  std::ranges::move(warnings_of_resume(state, job.membership->spec, job.membership->resume), std::back_inserter(warnings));
  shown["warnings"] = warnings;
  HttpResponse response = json_answer(201, shown);
  response.headers["Location"] = "/v1/jobs/" + job.id;
  return response;
}

}  // namespace

Submissions::Submissions(Turn& turn, std::string data_dir, std::vector<std::string> checkpoint_roots,
                         const Catalogue& data_sets, bool reached_in_plain)
    : turn_(turn),
      data_dir_(std::move(data_dir)),
      checkpoint_roots_(std::move(checkpoint_roots)),
      data_sets_(data_sets),
      reached_in_plain_(reached_in_plain),
      verifying_(1, kVerifyingWaitingMax) {}

void Submissions::post_job(Call& call) {
  auto submission = read_submission(call.request);
  if (!submission) return call.answer(submission.error());
  if (answer_repeated(call, *submission)) return;
  if (const auto checked = check_spec(*submission); !checked) return call.answer(checked.error());
  if (const auto checked = check_data(*submission); !checked) return call.answer(checked.error());
  if (const auto checked = check_dependency(*submission); !checked) return call.answer(checked.error());
  const Dependency& dependency = submission->dependency;
  if (!dependency.resume_from.empty()) submission->spec.resume_from = dependency.resume_from;
  // The spec has digests and places now that were found here; workers, and the service's next life, have to read it again.
  if (auto kept = parse_job_spec(to_json(submission->spec)); !kept) return call.answer(invalid_spec(std::move(kept.error())));
  if (submission->spec.resume_from.empty() || dependency.resumes_later) return carry_out(call, *submission);
  verify_checkpoint(call, *std::move(submission));
}

// True when the key was used before: the call is answered then, with the job or with a conflict.
bool Submissions::answer_repeated(const Call& call, const Submission& submission) {
  if (submission.key.empty()) return false;
  const auto known = turn_.state.journal().store().find_idempotency(submission.key);
  if (!known) return false;
  if (known->request != submission.request.dump()) {
    call.answer(problem(409, "idempotency_conflict",
                        fmt::format("Idempotency-Key \"{}\" was used for another submission, which became job {}: take a "
                                    "new key for a new job",
                                    submission.key, known->job)));
    return true;
  }
  call.answer(created(turn_.state, *turn_.state.find_job(known->job), submission.request, reached_in_plain_));
  return true;
}

Outcome<void> Submissions::check_spec(Submission& submission) {
  auto spec = parse_job_spec(with_sizes_of_named_job(turn_.state, submission.request));
  if (!spec) return tl::unexpected(invalid_spec(std::move(spec.error())));
  if (auto unfit = unfit_when_new(*spec); !unfit.empty()) return tl::unexpected(invalid_spec(std::move(unfit)));
  submission.spec = *std::move(spec);
  if (auto pinned = pin_initial_weights(turn_.state, submission.spec); !pinned)
    return tl::unexpected(problem_of(pinned.error()));
  if (auto found = find_tokenizer(turn_.state, submission.spec); !found) return tl::unexpected(problem_of(found.error()));
  return {};
}

Outcome<void> Submissions::check_data(Submission& submission) {
  if (submission.spec.serves()) return {};
  auto wrong = pin_data_sets(data_sets_, submission.spec);
  if (!wrong.empty()) return tl::unexpected(invalid_spec(std::move(wrong)));
  return {};
}

Outcome<void> Submissions::check_dependency(Submission& submission) {
  auto dependency = find_dependency(turn_.state, submission.spec);
  if (!dependency) return tl::unexpected(problem_of(dependency.error()));
  submission.dependency = *std::move(dependency);
  return {};
}

void Submissions::verify_checkpoint(const Call& call, Submission submission) {
  auto plan = plan_resume(turn_.state, submission.spec);
  if (!plan) return call.answer(plan.error());
  const bool posted = verifying_.post(
      [this, call, submission = std::move(submission), plan = *std::move(plan)] {
        auto choice = verify_resume(plan, submission.spec, data_dir_, checkpoint_roots_);
        turn_.commands->add_result([this, call, submission, choice = std::move(choice)]() mutable {
          if (!choice) return call.answer(choice.error());
          const ActingFor acting(turn_.state, call);
          submission.resume = std::move(choice->sources);
          submission.resume_note = std::move(choice->note);
          if (still_holds(call, submission)) carry_out(call, submission);
        });
      },
      [call](const std::string& why) { call.reply(problem_answer(problem(500, "internal_error", why))); });
  if (!posted) call.answer(problem(503, "unavailable", "too many checkpoints are being read: try again"));
}

// While the checkpoint was verified, a twin with the same key may have come first, a data set may have been removed, and the
// job that this one comes after may have ended. False: the call is answered.
bool Submissions::still_holds(const Call& call, Submission& submission) {
  if (answer_repeated(call, submission)) return false;
  auto checked = check_data(submission);
  if (checked) checked = check_dependency(submission);
  if (!checked) call.answer(checked.error());
  return checked.has_value();
}

void Submissions::carry_out(const Call& call, const Submission& submission) {
  if (submission.dry_run) return answer_dry_run(call, submission);
  Coordinator& state = turn_.state;
  // The folder comes before the job, so that no job is without one; after a crash in between the next job takes the folder.
  // This fsyncs on the owner thread, a few milliseconds for each job: on another thread the job's id, which names the folder,
  // would have to be reserved over several turns.
  if (const auto made = make_objects_folder(data_dir_, state.next_job_id()); !made)
    return call.answer(storage_problem(made.error()));
  const Job& job = state.submit(submission.spec, submission.resume, submission.resume_note, submission.dependency.job);
  if (!submission.key.empty()) state.journal().write().save_idempotency({submission.key, submission.request.dump(), job.id});
  state.replan();
  call.answer(created(state, job, submission.request, reached_in_plain_));
}

void Submissions::answer_dry_run(const Call& call, const Submission& submission) {
  Coordinator& state = turn_.state;
  const JobSpec& spec = submission.spec;
  const std::string& after = submission.dependency.job;
  int64_t alive = 0, free = 0;  // of the workers that the job could have
  for (const auto& [id, worker] : state.workers()) {
    if (worker.life != Worker::Life::kAlive || worker.leaving()) continue;
    if (!satisfies(worker.registration, spec.requirements)) continue;
    ++alive;
    if (worker.job.empty()) ++free;
  }
  const char* fit = spec.requirements.empty() ? "" : " that satisfy what it requires";
  std::string would = fmt::format("wait until {} has succeeded", after);
  if (after.empty()) {
    const std::string id = state.next_job_id();
    const Plan plan = state.plan_with(spec);
    const std::string taken = taken_in_words(plan, id);
    would = !plan.waiting.contains(id) ? fmt::format("begin at once: {} of {} workers{} are free", free, alive, fit)
            : !taken.empty()           ? fmt::format("begin when others have made room: it {}", taken)
                                       : fmt::format("wait: it needs {} worker{}, and {} of {}{} are free", spec.min_nodes,
                                           spec.min_nodes == 1 ? "" : "s", free, alive, fit);
  }
  if (!submission.resume_note.empty()) would += "; " + submission.resume_note;
  std::vector<std::string> warnings = warnings_of_workers(spec, alive);
  std::ranges::move(warnings_of(submission.request, spec, reached_in_plain_), std::back_inserter(warnings));
  std::ranges::move(warnings_of_resume(state, spec, submission.resume), std::back_inserter(warnings));
  call.answer(json_answer(200, {{"spec", to_json(spec)}, {"warnings", warnings}, {"would", would}, {"free_workers", free}}));
}

}  // namespace holdfast::rendezvous
