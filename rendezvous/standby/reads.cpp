// One thread reads: it begins a moment of the database, loads the state where that has changed, and has the handlers of the
// leader's own API answer from it.
#include "rendezvous/standby/reads.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/access/token_book.h"
#include "rendezvous/api/access.h"
#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/api/documents/page.h"
#include "rendezvous/api/documents/probes.h"
#include "rendezvous/api/feeds/followers.h"
#include "rendezvous/api/feeds/lists.h"
#include "rendezvous/api/jobs.h"
#include "rendezvous/api/tokens.h"
#include "rendezvous/api/turn/failure.h"
#include "rendezvous/api/turn/turn.h"
#include "rendezvous/api/workers.h"
#include "rendezvous/http/request_ids.h"
#include "rendezvous/text/time_text.h"

namespace holdfast::rendezvous {

// The state as one loading found it, and what answers from it.
struct StandbyView {
  StandbyView(StoreReading& reading, const ReadMoment& of, int64_t wall_ms, const Clock& clock, const std::string& service_id,
              const std::shared_ptr<CommandQueue>& commands)
      : state(
            reading.store(), clock, [] { return std::string(); }, {}, false),
        turn{state, clock, replies, commands},
        followers(turn),
        probes({service_id, "", 0, {}}),
        jobs(turn),
        lists(turn, followers),
        workers(turn, service_id),
        moment(of),
        as_of_ms(wall_ms) {}

  Coordinator state;
  Replies replies;
  Turn turn;
  Followers followers;  // has none
  Probes probes;
  JobsApi jobs;
  ListsApi lists;
  WorkersApi workers;
  ReadMoment moment;
  int64_t as_of_ms;  // wall time
};

struct StandbyRoute {
  std::vector<std::string> path;
  void (*handler)(StandbyView& view, Call& call);
};

namespace {

constexpr size_t kRequestsMax = 1000;
constexpr int64_t kLoadingShare = 10;  // one part in so many of the time

template <auto part, auto verb>
void by(StandbyView& view, Call& call) {
  ((view.*part).*verb)(call);
}
template <void (*verb)(Call&)>
void by_itself(StandbyView&, Call& call) {
  verb(call);
}

const std::vector<StandbyRoute>& read_routes() {
  static const std::vector<StandbyRoute> kRoutes = {
      {{"openapi.json"}, by<&StandbyView::probes, &Probes::get_openapi>},
      {{"v1", "jobs"}, by<&StandbyView::jobs, &JobsApi::get_jobs>},
      {{"v1", "job_spec"}, by<&StandbyView::jobs, &JobsApi::get_job_spec>},
      {{"v1", "jobs", "{}"}, by<&StandbyView::jobs, &JobsApi::get_job>},
      {{"v1", "jobs", "{}", "events"}, by<&StandbyView::lists, &ListsApi::get_events>},
      {{"v1", "jobs", "{}", "logs"}, by<&StandbyView::lists, &ListsApi::get_logs>},
      {{"v1", "jobs", "{}", "metrics"}, by<&StandbyView::lists, &ListsApi::get_metrics>},
      {{"v1", "jobs", "{}", "checkpoints"}, by<&StandbyView::lists, &ListsApi::get_checkpoints>},
      {{"v1", "jobs", "{}", "ledger"}, by<&StandbyView::lists, &ListsApi::get_ledger>},
      {{"v1", "events"}, by<&StandbyView::lists, &ListsApi::get_all_events>},
      {{"v1", "nodes"}, by<&StandbyView::workers, &WorkersApi::get_nodes>},
      {{"v1", "whoami"}, by_itself<&TokenDesk::get_whoami>},
  };
  return kRoutes;
}

const StandbyRoute* read_route(const Route& route) {
  if (route.method != std::string("GET")) return nullptr;
  const auto found = std::ranges::find(read_routes(), route.path, &StandbyRoute::path);
  return found == read_routes().end() ? nullptr : &*found;
}

// The files of the page are the program's own: no database is asked.
bool is_of_page(const Route& route) {
  return route.access == Access::kNone && route.method == std::string("GET") &&
         (route.path.front().empty() || route.path.front() == "page");
}

HttpResponse page_answer(const HttpRequest& request, std::vector<std::string> arguments) {
  HttpResponse answer;
  Replies replies;
  Call call{request, std::move(arguments), [&answer](HttpResponse response) { answer = std::move(response); }, std::nullopt,
            replies};
  get_page(call);
  replies.send();
  return answer;
}

bool names_later_term(const HttpRequest& request, int64_t term) {
  const auto named = request.headers.find("holdfast-term");
  return named != request.headers.end() && std::strtoll(named->second.c_str(), nullptr, 10) > term;
}

HttpResponse away(const std::string& why) {
  return problem_answer(problem(503, "unavailable", why));
}

}  // namespace

struct StandbyReads::Impl {
  struct Question {
    HttpRequest request;
    Reply reply;
    const StandbyRoute* route;
  };

  Impl(ReadsOptions with, const Clock& by, Open opens)
      : options(std::move(with)), clock(by), open(std::move(opens)), access(tokens, clock, options.requests_per_s) {
    const auto add_file = [this](const char* name, Role role, const std::string& secret) {
      tokens.add({name, name, role, secret_digest(secret), 0, 0, 0, true});
    };
    add_file("worker.token", Role::kWorker, options.worker_token);
    add_file("admin.token", Role::kAdmin, options.admin_token);  // last: it wins where both files hold the same secret
  }

  void run();
  void answer_waiting();
  void look();
  void load(const ReadMoment& moment, int64_t wall_ms);
  void take_tokens();
  void answer(Question& question);

  const ReadsOptions options;
  const Clock& clock;
  const Open open;
  const std::shared_ptr<CommandQueue> commands = std::make_shared<CommandQueue>(kRequestsMax);
  TokenBook tokens;
  AccessControl access;
  std::vector<Question> waiting;  // of this turn
  std::unique_ptr<StoreReading> reading;
  std::unique_ptr<StandbyView> view;  // of `reading`
  int64_t loaded_ms = 0, loading_ms = 0;
  std::thread thread;
};

void StandbyReads::Impl::run() {
  while (!commands->stopping()) {
    commands->wait(kTickMs * 20);
    answer_waiting();
  }
  answer_waiting();
}

void StandbyReads::Impl::answer_waiting() {
  for (const CommandQueue::Command& command : commands->take()) command();
  if (waiting.empty()) return;
  auto questions = std::exchange(waiting, {});
  try {
    if (!reading) reading = open();
    look();
    for (Question& question : questions) answer(question);
    reading->end();
  } catch (const std::exception& error) {
    view.reset();
    reading.reset();
    const auto answer = away(std::string("this service stands by, and cannot read the database: ") + error.what());
    for (const Question& question : questions) question.reply(answer);
    return;
  }
  view->replies.send();
}

void StandbyReads::Impl::look() {
  const int64_t now = clock.steady_ms(), wall_ms = clock.wall_ms();
  const ReadMoment moment = reading->begin();
  if (view && view->moment.same_contents(moment)) {
    view->as_of_ms = wall_ms;
    return;
  }
  const bool soon = now < loaded_ms + std::max(options.fresh_ms, kLoadingShare * loading_ms);
  if (!view || view->moment.term != moment.term || !soon) load(moment, wall_ms);
}

void StandbyReads::Impl::load(const ReadMoment& moment, int64_t wall_ms) {
  const int64_t began = clock.steady_ms();
  view.reset();  // first: two large states need twice the memory
  view = std::make_unique<StandbyView>(*reading, moment, wall_ms, clock, options.service_id, commands);
  take_tokens();
  loaded_ms = clock.steady_ms();
  loading_ms = loaded_ms - began;
}

void StandbyReads::Impl::take_tokens() {
  std::set<std::string> kept;
  for (TokenRow& row : reading->store().load_tokens().rows) {
    kept.insert(row.id);
    tokens.add(std::move(row));
  }
  for (const TokenRow& row : tokens.list()) {
    if (!row.of_file && !kept.contains(row.id)) tokens.remove(row.id);
  }
}

void StandbyReads::Impl::answer(Question& question) {
  const HttpRequest& request = question.request;
  const Reply named = [reply = question.reply, id = request_id(request), moment = view->moment,
                       as_of_ms = view->as_of_ms](HttpResponse response) {
    name_answer(response, id);
    response.headers["Holdfast-Term"] = std::to_string(moment.term);
    response.headers["Holdfast-As-Of"] = time_text(as_of_ms);
    if (!moment.leader.empty()) response.headers["Holdfast-Leader"] = moment.leader;
    reply(std::move(response));
  };
  Target target = access.find_target(request);
  if (!target.refusal) target.refusal = access.refuse_excess(target);
  if (!target.refusal && names_later_term(request, view->moment.term)) {
    target.refusal = problem_answer(problem(503, "not_leader",
                                            "this service stands by, and its database is in an earlier term than the one "
                                            "that you have heard of: ask the service that leads"));
  }
  if (target.refusal) return view->replies.add(named, *std::move(target.refusal));
  Call call{request, std::move(target.arguments), named, std::move(target.who), view->replies};
  question.route->handler(*view, call);
}

StandbyReads::StandbyReads(ReadsOptions options, const Clock& clock, Open open)
    : impl_(std::make_shared<Impl>(std::move(options), clock, std::move(open))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

StandbyReads::~StandbyReads() {
  impl_->commands->stop();
  impl_->thread.join();
  impl_->commands->close();
}

std::optional<Admission> StandbyReads::admit(const HttpRequest& head) {
  const RouteMatch match = find_route(head.method, head.path);
  if (match.route == nullptr) return std::nullopt;
  Admission admission;
  if (is_of_page(*match.route)) {
    admission.handler = [arguments = match.arguments](const HttpRequest& request, const Reply& reply) {
      HttpResponse answer = page_answer(request, arguments);
      name_answer(answer, request_id(request));
      reply(std::move(answer));
    };
    return admission;
  }
  const StandbyRoute* route = read_route(*match.route);
  if (route == nullptr) return std::nullopt;
  if (const auto follows = flag_query(head, "follow"); follows && *follows) return std::nullopt;
  admission.handler = [weak = std::weak_ptr(impl_), route](HttpRequest request, Reply reply) {
    const auto impl = weak.lock();
    const auto question = std::make_shared<Impl::Question>(
        Impl::Question{std::move(request), guarded(std::move(reply), std::make_shared<const FailureNote>()), route});
    const bool taken =
        impl && impl->commands->add([impl = impl.get(), question] { impl->waiting.push_back(std::move(*question)); });
    if (!taken) question->reply(away("this service begins to lead, or has too much to do: try again"));
  };
  return admission;
}

std::vector<std::string> StandbyReads::routes() {
  std::vector<std::string> names;
  for (const StandbyRoute& route : read_routes()) {
    std::string name = "GET ";
    for (const std::string& part : route.path) name += "/" + part;
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace holdfast::rendezvous
