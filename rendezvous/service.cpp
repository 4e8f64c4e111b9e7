// The queue between HTTP threads and the owner, the turn, and the way from a request to its handler.
#include "rendezvous/service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "rendezvous/object_folders.h"
#include "rendezvous/request_ids.h"
#include "rendezvous/restored_mark.h"
#include "rendezvous/service_impl.h"

namespace holdfast::rendezvous {
namespace {

constexpr size_t kQueueMax = 10000;
constexpr size_t kObjectsWaitingMax = 256, kVerifyingWaitingMax = 16;
constexpr int kSenders = 2;                                     // of webhooks
constexpr double kFailuresPerSecond = 1, kFailuresAtOnce = 50;  // of requests without a valid token, from one address

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
      requests_(options_.requests_per_s, 2 * options_.requests_per_s),
      failures_(kFailuresPerSecond, kFailuresAtOnce),
      webhooks_(store.load_webhooks()),
      objects_(options_.object_threads, kObjectsWaitingMax),
      verifying_(1, kVerifyingWaitingMax),
      senders_(kSenders, kObjectsWaitingMax) {}

void Service::Impl::handle(HttpRequest request, Reply reply) {
  reply = [reply = std::move(reply), id = request_id(request)](HttpResponse response) {
    name_answer(response, id);
    reply(std::move(response));
  };
  Target target = find_target(request);
  if (target.refusal) return reply(std::move(*target.refusal));
  if (asks_too_often(target)) {
    return reply(
        problem_answer(problem(429, "too_many_requests",
                               fmt::format("the token {} asks more than {:.0f} times a second: wait, or follow instead",
                                           target.who->name, options_.requests_per_s))));
  }
  // A service that fails drops what it was about to do.
  auto last_word = std::make_shared<LastWord>(std::move(reply));
  reply = [last_word](HttpResponse response) { last_word->say(std::move(response)); };
  auto call =
      std::make_shared<Call>(Call{std::move(request), std::move(target.arguments), std::move(reply), std::move(target.who)});
  const bool taken = enqueue([this, call, handler = target.route->handler] {
    const ActingFor acting(state_, *call);
    (this->*handler)(*call);
  });
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
  changed_.wait_for(lock, std::chrono::milliseconds(at_most),
                    [this] { return !queue_.empty() || !delivered_.empty() || stopping_; });
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
    settle_deliveries();
    if (ticked_ms_ < 0 || clock_.steady_ms() >= ticked_ms_ + kTickMs) {
      ticked_ms_ = clock_.steady_ms();
      state_.tick();
      keep_tokens();
    }
    state_.settle();
    release_polls();
    note_changes();
    state_.commit();
    flush();
    send_webhooks();
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
  entrance_->close();
  const HttpResponse goodbye = problem_answer(problem(503, "unavailable", "the service is stopping: try again"));
  polls_.close([&](const LongPolls::Poll& poll) {
    poll.reply(goodbye);
    return true;
  });
  for (Follower& follower : followers_) follower.stream->close();
  followers_.clear();
  sending_.cancel();  // what was not taken is sent by the next life
}

Service::Service(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret)
    : impl_(std::make_unique<Impl>(std::move(options), clock, store, std::move(new_secret))) {
  impl_->load_tokens();
  std::vector<std::string> jobs;
  for (const auto& [number, job] : impl_->state_.jobs()) jobs.push_back(job->id);
  tidy_objects(impl_->options_.data_dir, jobs);
  for (const StrayFolder& folder : stray_folders(impl_->options_.data_dir, jobs))
    impl_->state_.note_stray_folder(folder.job, objects_folder(impl_->options_.data_dir, folder.job), folder.empty);
  const bool restored = has_restored_mark(impl_->options_.data_dir);
  for (const auto& [number, job] : impl_->state_.jobs()) {
    if (is_ended(job->membership.state)) continue;
    std::vector<int64_t> known;
    for (const auto& [step, record] : job->checkpoints) known.push_back(step);
    const JobMembership& m = job->membership;
    impl_->state_.note_found_checkpoints(job->id, unknown_checkpoints(impl_->options_.data_dir, job->id, m.spec, m.born, known),
                                         restored);
  }
  impl_->state_.event("", "service_started",
                      fmt::format("the service (holdfast {}) began with {} job{} and {} worker{} in its database",
                                  kHoldfastVersion, jobs.size(), jobs.size() == 1 ? "" : "s", impl_->state_.workers().size(),
                                  impl_->state_.workers().size() == 1 ? "" : "s"));
  impl_->state_.commit();
  if (restored) remove_restored_mark(impl_->options_.data_dir);
}

Service::~Service() {
  impl_->entrance_->close();
}

Admission Service::admit(const HttpRequest& request) {
  Admission admission = impl_->admit(request);
  if (admission.refusal) name_answer(*admission.refusal, request_id(request));
  return admission;
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
  impl_->verifying_.finish();
  impl_->objects_.finish();  // the objects under way are answered while there is a server to answer through
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
