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
#include "rendezvous/service.h"
#include "rendezvous/work_pool.h"
#include "storage/object_store.h"

namespace holdfast::rendezvous {

constexpr Millis kTickMs = 50;

struct Call {
  HttpRequest request;
  std::vector<std::string> arguments;  // what stands at {…} in the route's path
  Reply reply;
};

enum class Access { kNone, kWorker, kAdmin };  // worker: a worker's or an administrator's token

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

  // --- service.cpp
  struct Target {  // where a request goes; `refusal` when it may not, or there is no such place
    const Route* route = nullptr;
    std::vector<std::string> arguments;
    std::optional<HttpResponse> refusal;
  };
  Target find_target(const HttpRequest& request) const;  // any thread
  void handle(HttpRequest request, Reply reply);         // any thread
  bool enqueue(std::function<void()> command);           // any thread; false: stopping
  void turn();
  void run_commands();
  void flush();
  void give_up(const std::string& why, bool of_store);
  void close();  // answers everybody; nothing is taken after it
  void wait_for_commands(Millis at_most);
  void answer(const Call& call, HttpResponse response) { outbox_.emplace_back(call.reply, std::move(response)); }
  void answer(const Call& call, const Problem& problem) { answer(call, problem_answer(problem)); }
  template <typename T>
  void answer_empty(const Call& call, const Outcome<T>& outcome, int status = 204) {
    outcome ? answer(call, empty_answer(status)) : answer(call, outcome.error());
  }

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
  void post_stop(Call& call);
  void post_pause(Call& call);
  void post_resume(Call& call);
  void post_scale(Call& call);
  void steer(Call& call, Outcome<void> (Coordinator::*verb)(const std::string&));
  void create_job(const Call& call, const JobSpec& spec, const nlohmann::json& request, const std::vector<StateSource>& resume,
                  const std::string& note);
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
  };
  void list_or_follow(Call& call, Feed feed);
  Outcome<FeedPlace> place_of(const Call& call, Feed feed, int64_t after);
  FeedRows read_feed(const FeedPlace& place, int64_t limit);
  void show_curve(Call& call);

  // --- service_followers.cpp
  struct Follower {
    std::shared_ptr<EventStream> stream;
    FeedPlace place;
    Millis written_ms = 0, ended_ms = -1;
    bool behind = true;
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

  // --- service_objects.cpp
  void on_objects(Call& call, std::function<HttpResponse(storage::ObjectStore&)> work);
  bool refuse_ended_writer(const Call& call);  // answers 409 itself
  void list_objects(Call& call);
  void get_object(Call& call);
  void put_object(Call& call);
  void delete_object(Call& call);
  void get_healthz(Call& call);
  void get_readyz(Call& call);

  ServiceOptions options_;
  const Clock& clock_;
  Coordinator state_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closed_ = false;
  std::optional<ServiceFailure> failure_;  // with mutex_
  std::atomic<bool> stopping_ = false;

  // of the owner thread
  bool stopped_by_itself_ = false;
  std::vector<std::pair<Reply, HttpResponse>> outbox_;
  LongPolls polls_;
  std::vector<Follower> followers_;
  int64_t fed_writes_ = -1;
  bool follower_behind_ = false;
  Millis ticked_ms_ = -1, fed_ms_ = -1;

  WorkPool pool_;  // last: its work may use all of the above
};

}  // namespace holdfast::rendezvous
