// The inside of Service, shared by service*.cpp: the queue, the turn, routes, long-polls and followers.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/answers.h"
#include "rendezvous/long_polls.h"
#include "rendezvous/rate_limits.h"
#include "rendezvous/service.h"
#include "rendezvous/tokens.h"
#include "rendezvous/work_pool.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

constexpr Millis kTickMs = 50;

struct Call {
  HttpRequest request;
  std::vector<std::string> arguments;  // what stands at {…} in the route's path
  Reply reply;
  std::optional<TokenRow> who;  // whose token it was; none where none is needed
};

// Which roles may go there. worker: a worker's or an administrator's token; any: one of any role.
enum class Access { kNone, kAny, kWorker, kRead, kSubmit, kAdmin };

// While it lives, events tell whose doing they are. Workers' requests are nobody's doing.
class ActingFor {
 public:
  ActingFor(Coordinator& state, const Call& call) : state_(state) {
    if (call.who && call.who->role != Role::kWorker) state_.set_actor(call.who->name);
  }
  ~ActingFor() { state_.set_actor(""); }
  ActingFor(const ActingFor&) = delete;

 private:
  Coordinator& state_;
};

struct Service::Impl {
  Impl(ServiceOptions options, const Clock& clock, JobStore& store, std::function<std::string()> new_secret);

  using Handler = void (Impl::*)(Call&);
  struct Route {
    const char* method;
    std::vector<std::string> path;  // "{}" stands for one part, a last "*" for all the rest
    Access access;
    Handler handler;
  };
  static const std::vector<Route>& routes();

  // --- service_access.cpp: any thread
  struct Target {  // where a request goes; `refusal` when it may not, or there is no such place
    const Route* route = nullptr;
    std::vector<std::string> arguments;
    std::optional<TokenRow> who;
    std::optional<HttpResponse> refusal;
  };
  Target find_target(const HttpRequest& request);
  Admission admit(const HttpRequest& request);
  bool asks_too_often(const Target& target);
  void load_tokens();

  // --- service.cpp
  void handle(HttpRequest request, Reply reply);  // any thread
  bool enqueue(std::function<void()> command);    // any thread; false: stopping
  void turn();
  void run_commands();
  void flush();
  void give_up(const std::string& why, bool of_store);
  void close();  // answers everybody; nothing is taken after it
  void wait_for_commands(Millis at_most);
  void answer(const Call& call, HttpResponse response) {
    ++answered_[{call.request.method, response.status}];
    outbox_.emplace_back(call.reply, std::move(response));
  }
  void answer(const Call& call, const Problem& problem) { answer(call, problem_answer(problem)); }
  template <typename T>
  void answer_empty(const Call& call, const Outcome<T>& outcome, int status = 204) {
    outcome ? answer(call, empty_answer(status)) : answer(call, outcome.error());
  }

  // --- service_tokens.cpp
  void post_token(Call& call);
  void get_tokens(Call& call);
  void delete_token(Call& call);
  void get_whoami(Call& call);
  void end_streams_without_token();
  void keep_tokens();

  // --- service_webhooks.cpp
  void post_webhook(Call& call);
  void get_webhooks(Call& call);
  void delete_webhook(Call& call);
  nlohmann::json show_webhook(const WebhookRow& row) const;
  void note_changes();
  void send_webhooks();
  void settle_deliveries();
  void settle_delivery(int64_t id, const DeliveryOutcome& outcome);

  // --- service_workers.cpp
  void post_worker(Call& call);
  void post_status(Call& call);
  void get_directive(Call& call);
  void post_lost(Call& call);
  void post_worker_logs(Call& call);
  void post_progress(Call& call);
  void post_fault(Call& call);
  void post_checkpoint(Call& call);
  void post_job_event(Call& call);
  void get_nodes(Call& call);
  void post_drain(Call& call);
  void release_polls();

  // --- service_jobs.cpp
  void post_job(Call& call);
  void get_jobs(Call& call);
  void get_job(Call& call);
  void get_job_spec(Call& call);
  void post_stop(Call& call);
  void post_pause(Call& call);
  void post_resume(Call& call);
  void post_scale(Call& call);
  void steer(Call& call, Outcome<void> (Coordinator::*verb)(const std::string&));
  void create_job(const Call& call, const JobSpec& spec, const nlohmann::json& request, const std::vector<StateSource>& resume,
                  const std::string& note);
  void answer_dry_run(const Call& call, const JobSpec& spec, const std::string& after, const std::string& resume_note);
  bool refuse_unseen(const Call& call, const Job& job);
  void answer_steered(const Call& call, const Job& job);
  bool answer_repeated(const Call& call, const nlohmann::json& request);
  const Job* need_job(const Call& call);  // answers 404 itself

  // --- service_lists.cpp
  void get_events(Call& call);
  void get_all_events(Call& call);
  void get_logs(Call& call);
  void get_metrics(Call& call);
  void get_checkpoints(Call& call);
  void get_ledger(Call& call);
  enum class Feed { kEvents, kLogs, kMetrics };
  struct FeedPlace {  // where somebody reads on
    Feed feed;
    std::string job;  // "": of all
    int64_t after = 0;
    std::string worker = {}, levels = {};  // of logs: as in LogQuery
    auto operator<=>(const FeedPlace&) const = default;
  };
  struct FeedRow {
    int64_t id;
    nlohmann::json json;
  };
  struct FeedRows {
    std::vector<FeedRow> rows;
    int64_t read_to = 0;
    bool more = false;
    int64_t looked_at = 0;  // rows, for these ones
  };
  void list_or_follow(Call& call, Feed feed);
  Outcome<FeedPlace> place_of(const Call& call, Feed feed, int64_t after);
  FeedRows read_feed(const FeedPlace& place, int64_t limit);
  void show_curve(Call& call);

  // --- service_followers.cpp
  // The queue, for who may come when the service is gone: a stream begins when its answer was sent. Thread: any.
  class Entrance {
   public:
    explicit Entrance(Impl& service) : service_(&service) {}
    bool enqueue(std::function<void()> command) {
      const std::lock_guard lock(mutex_);
      return service_ != nullptr && service_->enqueue(std::move(command));
    }
    void close() {
      const std::lock_guard lock(mutex_);
      service_ = nullptr;
    }

   private:
    std::mutex mutex_;
    Impl* service_;
  };
  struct Follower {
    std::shared_ptr<EventStream> stream;
    std::string token;  // id
    FeedPlace place;
    Millis written_ms = 0, ended_ms = -1;
    bool behind = true;
    bool full = false;  // it has not read what it was sent: it is sent more when it has
  };
  struct FeedChunk {  // what whoever is at one place is sent next
    std::string text;
    int64_t read_to = 0;
    bool more = false;
  };
  void follow(const Call& call, FeedPlace place);
  void feed_followers();
  FeedChunk make_chunk(const FeedPlace& place, int64_t& rows_left);
  bool go_on(Follower& follower);

  // --- service_page.cpp
  void get_page(Call& call);

  // --- service_objects.cpp
  void on_objects(Call& call, std::function<HttpResponse(storage::ObjectStore&)> work);
  bool refuse_ended_writer(const Call& call);  // answers 409 itself
  void list_objects(Call& call);
  void get_object(Call& call);
  void put_object(Call& call);
  void delete_object(Call& call);

  // --- service_metrics.cpp
  void get_prometheus(Call& call);

  void get_openapi(Call& call);
  void get_healthz(Call& call);
  void get_readyz(Call& call);

  ServiceOptions options_;
  const Clock& clock_;
  Coordinator state_;
  TokenBook tokens_;
  RateLimits requests_, failures_;  // by token; of those without a valid one, by address

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::pair<int64_t, DeliveryOutcome>> delivered_;  // not in the queue: a full one would lose them
  bool closed_ = false;
  std::optional<ServiceFailure> failure_;  // with mutex_
  std::atomic<bool> stopping_ = false;
  const std::shared_ptr<Entrance> entrance_ = std::make_shared<Entrance>(*this);

  // of the owner thread
  bool stopped_by_itself_ = false;
  std::vector<std::pair<Reply, HttpResponse>> outbox_;
  std::map<std::pair<std::string, int>, int64_t> answered_;  // by method and status
  LongPolls polls_;
  Webhooks webhooks_;
  std::vector<Follower> followers_;
  int64_t fed_writes_ = -1;
  bool follower_behind_ = false;
  Millis ticked_ms_ = -1, fed_ms_ = -1, used_saved_ms_ = 0, streams_checked_ms_ = 0;
  int64_t last_token_ = 0;

  WorkPool objects_;    // from here on last: their work may use all of the above
  WorkPool verifying_;  // apart: a checkpoint to resume from takes minutes, and workers wait for their objects
  ClientsAtWork sending_;
  WorkPool senders_;
};

}  // namespace holdfast::rendezvous
