#include "rendezvous/api/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/parts.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/data_dir/restored_mark.h"
#include "rendezvous/http/request_ids.h"
#include "rendezvous/text/plural.h"

namespace holdfast::rendezvous {
namespace {

constexpr std::chrono::seconds kStoresPatience{10};  // of all jobs together, as the service begins
constexpr Millis kUnheardMs = 1500, kReplacedWithinMs = 6000;

bool is_older_copy(const ServiceOptions& options) {
  return options.may_lack_some || has_restored_mark(options.data_dir);
}

// A reader that comes back with the newest id that it saw misses nothing, also where the database was restored from an older
// copy.
JobStore& with_new_ids(JobStore& store, const ServiceOptions& options, const Clock& clock) {
  if (!is_older_copy(options)) return store;
  store.begin();
  store.skip_ids(clock.wall_ms());
  store.commit();
  return store;
}

// The answer names its term, by which its reader can tell it from an answer by a service that was deposed.
void name_term(HttpResponse& response, int64_t term) {
  if (term > 0) response.headers["Holdfast-Term"] = std::to_string(term);
}

void complete(HttpResponse& response, const std::string& path, const std::string& id, int64_t term) {
  name_answer(response, id);
  name_term(response, term);
  add_openai_error(path, response);
}

Reply completed(Reply reply, const HttpRequest& request, int64_t term) {
  return [reply = std::move(reply), path = request.path, id = request_id(request), term](HttpResponse response) {
    complete(response, path, id, term);
    reply(std::move(response));
  };
}

// A request of somebody who knows of a later term: this service was deposed, and does not know it yet.
std::optional<HttpResponse> refuse_later_term(const HttpRequest& head, int64_t term) {
  const auto named_term = head.headers.find("holdfast-term");
  if (term == 0 || named_term == head.headers.end()) return std::nullopt;
  if (std::strtoll(named_term->second.c_str(), nullptr, 10) <= term) return std::nullopt;
  return problem_answer(problem(503, "not_leader", "another service leads now, in a later term: ask that one"));
}

struct FoundCheckpoints {
  std::string job;
  std::vector<CheckpointRecord> records;
};

// In the stores of all jobs that have not ended. It may take its time.
std::vector<FoundCheckpoints> look_for_checkpoints(const Coordinator& state, const std::string& data_dir) {
  std::vector<FoundCheckpoints> found;
  const auto began = std::chrono::steady_clock::now();
  int64_t not_asked = 0;
  for (const auto& [number, job] : state.jobs()) {
    if (is_ended(job->membership->state)) continue;
    const bool is_elsewhere = !job->membership->spec.checkpoint_store.empty();
    if (is_elsewhere && std::chrono::steady_clock::now() - began > kStoresPatience) {
      ++not_asked;
      continue;
    }
    std::vector<int64_t> known;
    for (const auto& [step, record] : job->checkpoints) known.push_back(step);
    const JobMembership& m = job->membership;
    found.push_back({job->id, unknown_checkpoints(data_dir, job->id, m.spec, m.born, known)});
  }
  if (not_asked > 0) {
    spdlog::warn(
        "the checkpoint stores of {} job{} were not looked at for checkpoints that the database does not know: others "
        "took more than {} s to answer",
        not_asked, not_asked == 1 ? "" : "s", kStoresPatience.count());
  }
  return found;
}

// Tells the coordinator which folders and checkpoints it finds in the data directory. The database may be older than they are.
void compare_with_data_dir(Coordinator& state, const ServiceOptions& options) {
  const std::string& data_dir = options.data_dir;
  std::vector<std::string> jobs;
  for (const auto& [number, job] : state.jobs()) jobs.push_back(job->id);
  tidy_objects(data_dir, jobs);
  // While a transaction is open nobody is waited for: a server of databases ends those that stand still.
  state.commit();
  const auto found = look_for_checkpoints(state, data_dir);
  RestoredDatabase& restored_database = state.restored_database();
  for (const StrayFolder& folder : stray_folders(data_dir, jobs)) {
    restored_database.reserve_id(folder.job);
    if (folder.empty) continue;  // the service was killed between making the folder and the job
    restored_database.report_stray_checkpoints(folder.job, objects_folder(data_dir, folder.job));
  }
  const auto adopt = is_older_copy(options) ? RestoredDatabase::Adopt::kAll : RestoredDatabase::Adopt::kOfUnknownGenerations;
  for (const auto& [job, records] : found) restored_database.adopt_checkpoints(job, records, adopt);
}

// Makes the folders of jobs that began while another service led, and names the checkpoints that this one did not pull.
void take_over_folders(Coordinator& state, const std::string& data_dir) {
  int64_t of_ended_jobs = 0;
  for (const auto& [number, job] : state.jobs()) {
    const bool ended = is_ended(job->membership->state);
    if (const auto made = ended ? storage::Result<void>() : make_objects_folder(data_dir, job->id); !made)
      throw StoreError(made.error().message);
    std::vector<int64_t> steps;
    for (const auto& [step, record] : job->checkpoints) {
      if (record.store.empty()) steps.push_back(step);
    }
    const std::vector<int64_t> absent = absent_checkpoints(data_dir, job->id, steps);
    if (absent.empty()) continue;
    if (ended) {
      of_ended_jobs += static_cast<int64_t>(absent.size());
      continue;
    }
    state.journal().record(
        {"checkpoints_lacking",
         fmt::format("this service lacks {} of {}, the newest of them at step {}: the one that led before has them in its "
                     "folder, and they were not pulled in time; a job that needs one goes back to an older",
                     absent.size(), counted(static_cast<int64_t>(steps.size()), "checkpoint"), absent.back()),
         job->id});
  }
  if (of_ended_jobs > 0) {
    state.journal().record(
        {"checkpoints_lacking",
         fmt::format("this service lacks {} of jobs that have ended: the one that led before has them in its folder",
                     counted(of_ended_jobs, "checkpoint"))});
  }
}

// A leader that hears few of its workers any more may be cut off from most.
ServiceOptions with_times_of_several(ServiceOptions options) {
  if (options.term > 0 && options.times.lease_of_most_ms == 0) options.times.lease_of_most_ms = kReplacedWithinMs;
  return options;
}

}  // namespace

struct Service::Impl {
  Impl(const ServiceOptions& options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
      : clock_(clock),
        term_(options.term),
        parts_(options, clock, with_new_ids(store, options, clock), std::move(new_secret)) {}

  void enqueue(Target target, HttpRequest request, Reply reply);  // any thread
  void turn();
  void run_turn();
  bool hears();
  void give_up(const ServiceFailure& failure);

  const Clock& clock_;
  const int64_t term_;
  Millis ticked_ms_ = -1;
  std::atomic<int64_t> requests_ = 0;
  int64_t requests_seen_ = 0;
  Millis heard_ms_ = 0;  // when they last became more
  bool stopped_by_itself_ = false;
  const std::shared_ptr<FailureNote> failure_ = std::make_shared<FailureNote>();
  Parts parts_;
};

void Service::Impl::enqueue(Target target, HttpRequest request, Reply reply) {
  reply = completed(std::move(reply), request, term_);
  if (auto refusal = parts_.access.refuse_excess(target)) return reply(std::move(*refusal));
  const auto call = std::make_shared<Call>(Call{std::move(request), std::move(target.arguments),
                                                guarded(std::move(reply), failure_), std::move(target.who), parts_.replies});
  const bool taken = parts_.commands->add([this, call, handler = target.route->handler] {
    const ActingFor acting(parts_.state, *call);
    handler(parts_, *call);
  });
  if (!taken) call->reply(failure_->answer_instead("the service is stopping or has too much to do: try again"));
}

void Service::Impl::turn() {
  if (stopped_by_itself_) return;
  try {
    run_turn();
  } catch (const StoreFull& error) {
    give_up({error.what(), true});
  } catch (const StoreAway& error) {
    give_up({error.what(), true, true});
  } catch (const StoreError& error) {
    give_up({error.what(), true});
  } catch (const std::exception& error) {
    give_up({error.what(), false});
  }
}

// A leader to whom nobody comes any more, of whose workers each came every second, is more likely cut off than left by all of
// them at once. The others have their time to replace it: until then it ends nobody's lease, which the next leader would have
// to believe.
bool Service::Impl::hears() {
  const Millis now = clock_.steady_ms();
  const int64_t requests = requests_;
  if (std::exchange(requests_seen_, requests) != requests || heard_ms_ == 0) heard_ms_ = now;
  const Millis silence = now - heard_ms_;
  return term_ == 0 || silence < kUnheardMs || silence > kReplacedWithinMs;
}

void Service::Impl::run_turn() {
  for (const CommandQueue::Command& command : parts_.commands->take()) command();
  if (ticked_ms_ < 0 || clock_.steady_ms() >= ticked_ms_ + kTickMs) {
    ticked_ms_ = clock_.steady_ms();
    parts_.state.journal().store().check_files();
    parts_.state.tick(hears());
    parts_.tokens.tend();
    parts_.data_keeper.tend();
    parts_.data_holders.tend();
    parts_.scaler.tend();
  }
  parts_.state.replan();
  parts_.profiles.merge_complete();
  parts_.workers.release_polls();
  parts_.serving.tend();
  parts_.webhook_sender.note_changes();
  // A leader that was deposed hears of it a moment later. Until then "there is no such job" may be said of one that the next
  // leader has taken.
  if (!parts_.state.commit() && parts_.replies.tells_person()) parts_.state.journal().store().confirm();
  parts_.replies.send();
  parts_.webhook_sender.send_due();
  parts_.followers.feed();
}

// Memory may be ahead of the disk now, so nothing more may be told. A restart begins from the last commit.
void Service::Impl::give_up(const ServiceFailure& failure) {
  spdlog::critical("the service stops: {}. Nothing that was answered is lost{}", failure.why,
                   failure.of_store
                       ? ": it goes on from its last commit when the database can be written, which is tried every few seconds"
                       : "; start it again");
  stopped_by_itself_ = true;
  failure_->set(failure);  // first: whoever was told of the failure and asks again hears of it again
  parts_.replies.send_instead(failure_->answer_instead(""));
  parts_.close();
}

Service::Service(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
    : impl_(std::make_unique<Impl>(with_times_of_several(options), clock, store, std::move(new_secret))) {
  Coordinator& state = impl_->parts_.state;
  compare_with_data_dir(state, options);
  if (options.has_own_folder) take_over_folders(state, options.data_dir);
  state.journal().record(
      {"service_started", fmt::format("the service (holdfast {}) began with {} job{} and {} worker{} in its database",
                                      kHoldfastVersion, state.jobs().size(), state.jobs().size() == 1 ? "" : "s",
                                      state.workers().size(), state.workers().size() == 1 ? "" : "s")});
  state.commit();
  if (has_restored_mark(options.data_dir)) remove_restored_mark(options.data_dir);
}

Service::~Service() = default;

Admission Service::admit(const HttpRequest& head) {
  Admission admission;
  if ((admission.refusal = refuse_later_term(head, impl_->term_))) return admission;
  if (head.path.starts_with("/v1/")) ++impl_->requests_;
  Target target = impl_->parts_.access.find_target(head);
  admission.known = target.who.has_value();
  if (target.refusal) {
    admission.refusal = std::move(target.refusal);
    complete(*admission.refusal, head.path, request_id(head), impl_->term_);
  } else {
    admission.handler = [impl = impl_.get(), target = std::move(target)](HttpRequest request, Reply reply) mutable {
      impl->enqueue(std::move(target), std::move(request), std::move(reply));
    };
  }
  return admission;
}

std::vector<Service::RouteSummary> Service::routes() {
  std::vector<RouteSummary> summaries;
  for (const Route& route : rendezvous::routes()) {
    RouteSummary& summary = summaries.emplace_back(RouteSummary{route.method, "", {}});
    for (const std::string& part : route.path) summary.path += fmt::format("/{}", part == "*" ? "{}" : part);
    for (const Role role : roles_of(route.access)) summary.roles.push_back(role_name(role));
  }
  return summaries;
}

void Service::turn() {
  impl_->turn();
}

void Service::run() {
  CommandQueue& commands = *impl_->parts_.commands;
  while (!commands.stopping()) {
    commands.wait(impl_->parts_.followers.any_behind() ? 0 : kTickMs);
    impl_->turn();
  }
  impl_->turn();  // the commands that came before the stop
  impl_->parts_.close();
  impl_->parts_.finish();  // objects under way are answered while there is a server to answer through
}

void Service::stop() {
  impl_->parts_.commands->stop();
}

CoordinatorWork Service::work() const {
  return impl_->parts_.state.work();
}

std::optional<ServiceFailure> Service::failure() const {
  return impl_->failure_->get();
}

}  // namespace holdfast::rendezvous
