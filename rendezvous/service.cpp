// The queue between HTTP threads and the owner, the turn, and the way from a request to its handler.
#include "rendezvous/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "rendezvous/object_folders.h"
#include "rendezvous/secrets.h"
#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kQueueMax = 10000;
constexpr size_t kObjectsWaitingMax = 256;

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& parts,
             std::vector<std::string>& arguments) {
  arguments.clear();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "*" && parts.size() > i) {
      std::string rest = parts[i];
      for (size_t j = i + 1; j < parts.size(); ++j) rest += "/" + parts[j];
      arguments.push_back(rest);
      return true;
    }
    if (i >= parts.size()) return false;
    if (pattern[i] == "{}") {
      arguments.push_back(parts[i]);
    } else if (pattern[i] != parts[i]) {
      return false;
    }
  }
  return pattern.size() == parts.size();
}

std::string bearer_token(const HttpRequest& request) {
  const auto found = request.headers.find("authorization");
  if (found == request.headers.end()) return "";
  const std::string& value = found->second;
  constexpr std::string_view kScheme = "bearer ";
  const bool bearer = value.size() > kScheme.size() &&
                      std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                                 [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  return bearer ? value.substr(kScheme.size()) : "";
}

std::optional<Problem> forbidden(const HttpRequest& request, Access access, const ServiceOptions& options) {
  if (access == Access::kNone) return std::nullopt;
  const std::string token = bearer_token(request);
  const bool admin = equal_secrets(token, options.admin_token), worker = equal_secrets(token, options.worker_token);
  if (admin || (worker && access == Access::kWorker)) return std::nullopt;
  if (worker) {
    return problem(403, "not_allowed",
                   fmt::format("{} {} needs the administrator's token; this is the workers'", request.method, request.path));
  }
  return problem(
      401, "no_token",
      token.empty()
          ? "send `Authorization: Bearer TOKEN`; the service's DATA_DIR/admin.token holds one (HOLDFAST_TOKEN carries it)"
          : "this token is not one of this service's; see its DATA_DIR/admin.token and worker.token");
}

// Answers 503 where nobody else has answered.
class LastWord {
 public:
  explicit LastWord(Reply reply) : reply_(std::move(reply)) {}
  LastWord(const LastWord&) = delete;
  ~LastWord() {
    if (!said_) reply_(problem_answer(problem(503, "unavailable", "the service stopped before it could answer: try again")));
  }
  void say(HttpResponse response) {
    said_ = true;
    reply_(std::move(response));
  }

 private:
  Reply reply_;
  bool said_ = false;
};

}  // namespace

Service::Impl::Impl(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
    : options_(std::move(options)),
      clock_(clock),
      state_(store, clock, std::move(new_secret), options_.times),
      pool_(options_.object_threads, kObjectsWaitingMax) {}

const std::vector<Service::Impl::Route>& Service::Impl::routes() {
  using I = Impl;
  constexpr Access none = Access::kNone, worker = Access::kWorker, admin = Access::kAdmin;
  static const std::vector<Route> kRoutes = {
      {"GET", {"healthz"}, none, &I::get_healthz},
      {"GET", {"readyz"}, none, &I::get_readyz},
      {"POST", {"v1", "workers"}, worker, &I::post_worker},
      {"POST", {"v1", "workers", "lost"}, worker, &I::post_lost},
      {"POST", {"v1", "workers", "{}", "status"}, worker, &I::post_status},
      {"GET", {"v1", "workers", "{}", "directive"}, worker, &I::get_directive},
      {"POST", {"v1", "workers", "{}", "logs"}, worker, &I::post_worker_logs},
      {"POST", {"v1", "jobs", "{}", "progress"}, worker, &I::post_progress},
      {"POST", {"v1", "jobs", "{}", "faults"}, worker, &I::post_fault},
      {"POST", {"v1", "jobs", "{}", "checkpoints"}, worker, &I::post_checkpoint},
      {"POST", {"v1", "jobs", "{}", "events"}, worker, &I::post_job_event},
      {"GET", {"v1", "jobs", "{}", "objects"}, worker, &I::list_objects},
      {"GET", {"v1", "jobs", "{}", "objects", "*"}, worker, &I::get_object},
      {"PUT", {"v1", "jobs", "{}", "objects", "*"}, worker, &I::put_object},
      {"DELETE", {"v1", "jobs", "{}", "objects", "*"}, worker, &I::delete_object},
      {"POST", {"v1", "jobs"}, admin, &I::post_job},
      {"GET", {"v1", "jobs"}, admin, &I::get_jobs},
      {"GET", {"v1", "jobs", "{}"}, admin, &I::get_job},
      {"POST", {"v1", "jobs", "{}", "stop"}, admin, &I::post_stop},
      {"POST", {"v1", "jobs", "{}", "pause"}, admin, &I::post_pause},
      {"POST", {"v1", "jobs", "{}", "resume"}, admin, &I::post_resume},
      {"POST", {"v1", "jobs", "{}", "scale"}, admin, &I::post_scale},
      {"GET", {"v1", "jobs", "{}", "events"}, admin, &I::get_events},
      {"GET", {"v1", "jobs", "{}", "logs"}, admin, &I::get_logs},
      {"GET", {"v1", "jobs", "{}", "metrics"}, admin, &I::get_metrics},
      {"GET", {"v1", "jobs", "{}", "checkpoints"}, admin, &I::get_checkpoints},
      {"GET", {"v1", "jobs", "{}", "ledger"}, admin, &I::get_ledger},
      {"GET", {"v1", "events"}, admin, &I::get_all_events},
      {"GET", {"v1", "nodes"}, admin, &I::get_nodes},
      {"POST", {"v1", "nodes", "{}", "drain"}, admin, &I::post_drain},
  };
  return kRoutes;
}

Service::Impl::Target Service::Impl::find_target(const HttpRequest& request) const {
  const std::vector<std::string> parts = parts_of(request.path);
  Target target;
  std::set<std::string> methods;
  for (const Route& candidate : routes()) {
    if (!matches(candidate.path, parts, target.arguments)) continue;
    methods.insert(candidate.method);
    if (request.method != candidate.method) continue;
    target.route = &candidate;
    break;
  }
  if (target.route == nullptr && methods.empty()) {
    target.refusal = problem_answer(problem(404, "not_found", fmt::format("there is nothing at {}", request.path)));
  } else if (target.route == nullptr) {
    std::string allow;
    for (const std::string& method : methods) allow += (allow.empty() ? "" : ", ") + method;
    target.refusal = problem_answer(
        problem(405, "method_not_allowed", fmt::format("{} takes {}, not {}", request.path, allow, request.method)));
    target.refusal->headers["Allow"] = allow;
  } else if (const auto refusal = forbidden(request, target.route->access, options_)) {
    target.refusal = problem_answer(*refusal);
  }
  return target;
}

void Service::Impl::handle(HttpRequest request, Reply reply) {
  Target target = find_target(request);
  if (target.refusal) return reply(std::move(*target.refusal));
  // A service that fails drops what it was about to do.
  auto last_word = std::make_shared<LastWord>(std::move(reply));
  reply = [last_word](HttpResponse response) { last_word->say(std::move(response)); };
  auto call = std::make_shared<Call>(Call{std::move(request), std::move(target.arguments), std::move(reply)});
  const bool taken = enqueue([this, call, handler = target.route->handler] { (this->*handler)(*call); });
  if (!taken)
    call->reply(problem_answer(problem(503, "unavailable", "the service is stopping or has too much to do: try again")));
}

bool Service::Impl::enqueue(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || queue_.size() >= kQueueMax) return false;
    queue_.push_back(std::move(command));
  }
  changed_.notify_one();
  return true;
}

void Service::Impl::wait_for_commands(Millis at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(at_most), [this] { return !queue_.empty() || stopping_; });
}

void Service::Impl::run_commands() {
  std::deque<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(queue_);
  }
  for (const std::function<void()>& command : commands) command();
}

void Service::Impl::turn() {
  if (stopped_by_itself_) return;
  try {
    run_commands();
    if (ticked_ms_ < 0 || clock_.steady_ms() >= ticked_ms_ + kTickMs) {
      ticked_ms_ = clock_.steady_ms();
      state_.tick();
    }
    state_.settle();
    release_polls();
    state_.commit();
    flush();
    feed_followers();
  } catch (const StoreError& error) {
    give_up(error.what(), true);
  } catch (const std::exception& error) {
    give_up(error.what(), false);
  }
}

void Service::Impl::flush() {
  for (auto& [reply, response] : outbox_) reply(std::move(response));
  outbox_.clear();
}

// What is in memory may be ahead of what is on disk, so nothing more may be said. A restart begins from the last commit.
void Service::Impl::give_up(const std::string& why, bool of_store) {
  spdlog::critical("the service stops: {}. Nothing that was answered is lost{}", why,
                   of_store
                       ? ": it goes on from its last commit when the database can be written, which is tried every few seconds"
                       : "; start it again");
  stopped_by_itself_ = true;
  for (auto& [reply, response] : outbox_)
    reply(problem_answer(problem(503, "unavailable", "the service could not keep this: " + why)));
  outbox_.clear();
  close();
  const std::lock_guard lock(mutex_);
  failure_ = ServiceFailure{why, of_store};
}

void Service::Impl::close() {
  std::deque<std::function<void()>> late;
  {
    const std::lock_guard lock(mutex_);
    closed_ = stopping_ = true;
    late.swap(queue_);  // dropped: their replies answer for themselves
  }
  changed_.notify_all();
  const HttpResponse goodbye = problem_answer(problem(503, "unavailable", "the service is stopping: try again"));
  polls_.close([&](const LongPolls::Poll& poll) {
    poll.reply(goodbye);
    return true;
  });
  for (Follower& follower : followers_) follower.stream->close();
  followers_.clear();
}

Service::Service(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
    : impl_(std::make_unique<Impl>(std::move(options), clock, store, std::move(new_secret))) {
  std::vector<std::string> jobs;
  for (const auto& [number, job] : impl_->state_.jobs()) jobs.push_back(job->id);
  tidy_objects(impl_->options_.data_dir, jobs);
  for (const StrayFolder& folder : stray_folders(impl_->options_.data_dir, jobs))
    impl_->state_.note_stray_folder(folder.job, objects_folder(impl_->options_.data_dir, folder.job), folder.empty);
  for (const auto& [number, job] : impl_->state_.jobs()) {
    if (is_ended(job->membership.state)) continue;
    std::vector<int64_t> known;
    for (const auto& [step, record] : job->checkpoints) known.push_back(step);
    const JobMembership& m = job->membership;
    impl_->state_.note_found_checkpoints(job->id,
                                         unknown_checkpoints(impl_->options_.data_dir, job->id, m.spec, m.born, known));
  }
  impl_->state_.event("", "service_started",
                      fmt::format("the service (holdfast {}) began with {} job{} and {} worker{} in its database",
                                  kHoldfastVersion, jobs.size(), jobs.size() == 1 ? "" : "s", impl_->state_.workers().size(),
                                  impl_->state_.workers().size() == 1 ? "" : "s"));
  impl_->state_.commit();
}

Service::~Service() = default;

std::optional<HttpResponse> Service::refusal(const HttpRequest& request) const {
  return impl_->find_target(request).refusal;
}

void Service::handle(HttpRequest request, Reply reply) {
  impl_->handle(std::move(request), std::move(reply));
}

void Service::turn() {
  impl_->turn();
}

void Service::run() {
  while (!impl_->stopping_) {
    impl_->wait_for_commands(impl_->follower_behind_ ? 0 : kTickMs);
    impl_->turn();
  }
  impl_->turn();  // what came before the stop
  impl_->close();
  impl_->pool_.finish();  // the objects under way are answered while there is a server to answer through
}

void Service::stop() {
  impl_->stopping_ = true;
  impl_->changed_.notify_all();
}

const CoordinatorWork& Service::work() const {
  return impl_->state_.work();
}

std::optional<ServiceFailure> Service::failure() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->failure_;
}

}  // namespace holdfast::rendezvous
