#include "rendezvous/api/serving/serving.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/api/answers/answers.h"
#include "rendezvous/api/answers/problems.h"
#include "rendezvous/completions/replica_messages.h"
#include "rendezvous/data_dir/object_folders.h"
#include "rendezvous/protocol/initial_source.h"
#include "rendezvous/text/random_hex.h"

namespace holdfast::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr int64_t kWaitMaxMs = 60'000;
constexpr Millis kAllHeardMs = 3000;  // after the service began, or the job did
constexpr size_t kTokenizersWaiting = 64, kPromptsWaiting = 16;
constexpr int kReadsFailedTold = 8;
constexpr Millis kFirstReadAgainMs = 200, kReadAgainMs = 5000;  // a tokenizer that could not be read

const std::string& name_of(const Job& job) {
  return job.membership->spec.name.empty() ? job.id : job.membership->spec.name;
}

bool is_of_openai(const std::string& path) {
  return path == "/v1/completions" || path == "/v1/models";
}

// In the words of init_from. Of a job that is followed, its newest checkpoint.
std::string answering_source(const Coordinator& state, const JobSpec& spec) {
  if (spec.follow != "on") return spec.init_from;
  InitialSource source = parse_initial_source(spec.init_from);
  const Job* followed = state.find_job(source.job);
  if (followed == nullptr) return spec.init_from;
  const KnownCheckpoint* newest = newest_checkpoint(followed->membership);
  if (newest == nullptr) return spec.init_from;
  source.step = newest->step;
  source.store = newest->store;
  return to_text(source);
}

// Whether the job that is followed has no such checkpoint any more.
bool is_removed(const Coordinator& state, const JobSpec& spec, const std::string& checkpoint) {
  if (spec.follow != "on" || checkpoint.empty()) return false;
  const InitialSource source = parse_initial_source(checkpoint);
  const Job* followed = state.find_job(source.job);
  if (followed == nullptr || source.step < 0) return false;
  const auto found = followed->membership->checkpoints.find(source.step);
  return found == followed->membership->checkpoints.end() || found->second.unreadable;
}

}  // namespace

void add_openai_error(const std::string& path, HttpResponse& response) {
  if (!is_of_openai(path) || response.content_type != kProblemType) return;
  Json body = Json::parse(response.body, nullptr, false);
  if (!body.is_object()) return;
  const ApiError error{.type = response.status >= 500   ? "server_error"
                               : response.status == 429 ? "rate_limit_error"
                                                        : "invalid_request_error",
                       .message = body.value("detail", ""),
                       .code = body.value("code", "")};
  body.update(json_of(error));
  response.body = body.dump();
}

struct ServingApi::Served {
  Served(const JobSpec& spec, Millis now) : replicas(spec.stages), began_ms(now) {}

  Replicas replicas;
  const Millis began_ms;
  std::shared_ptr<const model::Tokenizer> tokenizer;
  bool is_reading = false, lacks_tokenizer = false;
  std::string tokenizer_object;  // that a replica brings
  int reads_failed = 0;          // of it: the first ones before it was brought
  Millis read_again_ms = 0, read_pause_ms = kFirstReadAgainMs;
};

namespace {

// The seam's other side: texts of one model of a job.
class PoolTexts : public Texts {
 public:
  PoolTexts(ReplicaPool& pool, HeldModel model, const Clock& clock) : pool_(pool), model_(std::move(model)), clock_(clock) {}
  std::optional<TextRefused> submit(std::vector<TextOrder> orders, std::chrono::milliseconds patience) override {
    return pool_.submit(model_, std::move(orders), clock_.steady_ms() + patience.count());
  }
  std::optional<TextRefused> refusal_of(int64_t texts) const override { return pool_.refusal_of(texts); }

 private:
  ReplicaPool& pool_;
  const HeldModel model_;
  const Clock& clock_;
};

}  // namespace

ServingApi::ServingApi(Turn& turn, std::string data_dir, DeskSettings settings)
    : turn_(turn),
      data_dir_(std::move(data_dir)),
      life_(random_hex(8)),
      desk_(settings),
      tokenizers_(1, kTokenizersWaiting),
      prompts_(1, kPromptsWaiting) {}

const Job* ServingApi::job_of(const std::string& id) const {
  const Job* job = turn_.state.find_job(id);
  return job != nullptr && job->membership->spec.serves() && !is_ended(job->membership->state) ? job : nullptr;
}

// --- for those who ask

void ServingApi::post_completion(Call& call) {
  const auto aside = [this](std::function<void()> work, CompletionDesk::Then then) {
    const auto back = [commands = turn_.commands, then = std::move(then)](const std::string& why_not) {
      commands->add_result([then, why_not] { then(why_not); });
    };
    const auto work_and_tell = [this, work = std::move(work), back] {
      if (is_closed_) return back("the service is stopping");
      work();
      back("");
    };
    return prompts_.post(work_and_tell, back);
  };
  desk_.take(
      call.request, call.reply, [this](const std::string& name) { return find(name); }, aside);
}

// By id or name; of several jobs with one name the newest.
const Job* ServingApi::find_job(const std::string& name) const {
  const auto& jobs = turn_.state.jobs();
  for (auto at = jobs.rbegin(); at != jobs.rend(); ++at) {
    const Job* const job = job_of(at->second->id);
    if (job != nullptr && (job->id == name || name_of(*job) == name)) return job;
  }
  return nullptr;
}

std::string ServingApi::names() const {
  std::string all;
  for (const auto& [number, job] : turn_.state.jobs()) {
    if (job_of(job->id) != nullptr) all += fmt::format("{}\"{}\"", all.empty() ? "" : ", ", name_of(*job));
  }
  return all.empty() ? "none serves; `holdfast submit --kind serve --init_from job:ID` begins one" : "there are " + all;
}

tl::expected<AskedModel, ApiError> ServingApi::find(const std::string& name) {
  const Job* const job = find_job(name);
  if (job == nullptr) {
    return tl::unexpected(
        ApiError{.status = 404,
                 .message = fmt::format("model: \"{}\" is served by no job: {}", name.substr(0, 100), names()),
                 .param = "model",
                 .code = "model_not_found"});
  }
  const auto served = served_.find(job->id);
  const HeldModel* model = served == served_.end() ? nullptr : served->second->replicas.answering();
  if (model == nullptr || served->second->tokenizer == nullptr) {
    return tl::unexpected(ApiError{
        .status = 503,
        .type = "server_error",
        .message = fmt::format("model: no replica of {} is ready ({}): try again later", job->id, job->membership->reason),
        .param = "model",
        .code = "not_ready"});
  }
  return AskedModel{.name = name_of(*job),
                    .fingerprint = model->fingerprint,
                    .block_size = model->block_size,
                    .tokenizer = served->second->tokenizer,
                    .texts = std::make_shared<PoolTexts>(served->second->replicas.texts(), *model, turn_.clock)};
}

void ServingApi::get_models(Call& call) {
  Json all = Json::array();
  for (const auto& [id, served] : served_) {
    const Job* job = job_of(id);
    if (job == nullptr || served->tokenizer == nullptr) continue;  // requests are refused until it is there
    const HeldModel* model = served->replicas.answering();
    if (model == nullptr) continue;
    Json workers = Json::array();
    for (const std::string& worker : served->replicas.texts().replicas()) {
      workers.push_back({{"worker", worker}, {"texts", served->replicas.texts().texts_of(worker)}});
      if (served->replicas.is_divided()) workers.back()["stages"] = served->replicas.group_of(worker);
    }
    const ReplicaPool::Load load = served->replicas.texts().load();
    all.push_back({{"id", name_of(*job)},
                   {"object", "model"},
                   {"created", job->submitted_ms / 1000},
                   {"owned_by", "holdfast"},
                   {"max_model_len", model->block_size},
                   {"step", parse_initial_source(model->source).step},
                   {"system_fingerprint", model->fingerprint},
                   {"job", id},
                   {"replicas", workers.size()},
                   {"workers", std::move(workers)},
                   {"texts", {{"writing", load.writing}, {"waiting", load.waiting}, {"moved", load.moved}}}});
  }
  call.answer(json_answer(200, {{"object", "list"}, {"data", std::move(all)}}));
}

// --- for replicas

void ServingApi::post_texts(Call& call) {
  const auto report = read_body<ReplicaReport>(call.request);
  if (!report) return call.answer(report.error());
  const std::string& worker = call.arguments[0];
  if (const auto over = turn_.state.begin_poll(worker, report->incarnation); !over) return call.answer(over.error());
  const Job* const job = job_of(report->job);
  const auto known = turn_.state.workers().find(worker);
  if (job == nullptr || known == turn_.state.workers().end() || known->second.job != job->id) {
    return call.answer(
        problem(409, "not_a_replica", fmt::format("{} is no replica of job {}: it has no texts for it", worker, report->job)));
  }
  std::shared_ptr<Served>& served = served_[job->id];
  if (served == nullptr) {
    served = std::make_shared<Served>(job->membership->spec, turn_.clock.steady_ms());
    aim(*job, *served);
  }
  if (report->wait_ms == 0) {
    served->replicas.texts().take_load(worker, *report);
    if (report->life == life_) {
      for (const TextNews& news : report->news) served->replicas.texts().take(worker, report->incarnation, news);
    }
    return call.answer(json_answer(200, Json(ReplicaOrders{.life = life_, .wanted = served->replicas.wanted()})));
  }
  served->replicas.hear(worker, *report);
  const Millis now = turn_.clock.steady_ms();
  if (!report->tokenizer.empty()) served->tokenizer_object = report->tokenizer;
  read_tokenizer(job->id, now);
  // tend() looks at it in this turn, after all commands. `have` is the newest order that the replica has.
  polls_.add({call.reply, worker, report->incarnation, fmt::format("{} {}", report->life == life_ ? report->have : 0, job->id),
              now + std::min(report->wait_ms, kWaitMaxMs)},
             now);
}

void ServingApi::aim(const Job& job, Served& served) const {
  const std::string& aimed_at = served.replicas.aimed_at();
  served.replicas.aim(turn_.clock.steady_ms(), answering_source(turn_.state, job.membership->spec),
                      is_removed(turn_.state, job.membership->spec, aimed_at));
}

bool ServingApi::answer_poll(const LongPolls::Poll& poll) {
  const size_t gap = poll.have.find(' ');
  const auto found = served_.find(poll.have.substr(gap + 1));
  const Job* const job = found == served_.end() ? nullptr : job_of(found->first);
  if (job == nullptr) {
    turn_.replies.add(poll.reply, problem_answer(problem(409, "not_a_replica", "the job serves no more")));
    return true;
  }
  Served& served = *found->second;
  ReplicaOrders orders =
      served.replicas.orders_for(poll.worker, std::stoll(poll.have.substr(0, gap)), served.replicas.wanted());
  orders.life = life_;
  orders.tokenizer_wanted = served.lacks_tokenizer;
  const bool has_news =
      !orders.orders.empty() || served.replicas.is_news(poll.worker, orders.wanted) || orders.tokenizer_wanted;
  if (!has_news && turn_.clock.steady_ms() < poll.deadline_ms) return false;
  if (orders.tokenizer_wanted) served.lacks_tokenizer = false;  // until it turns out to be absent again
  turn_.replies.add(poll.reply, json_answer(200, Json(orders)));
  return true;
}

// A replica brings it as an object of the job.
void ServingApi::read_tokenizer(const std::string& job, Millis now) {
  const std::shared_ptr<Served> served = served_.at(job);
  const std::string& object = served->tokenizer_object;
  if (object.empty() || served->tokenizer != nullptr || served->is_reading || now < served->read_again_ms) return;
  served->is_reading = true;
  const std::string path = objects_folder(data_dir_, job) + "/" + object;
  const auto tell = [served, commands = turn_.commands, &clock = turn_.clock](std::shared_ptr<const model::Tokenizer> tokenizer,
                                                                              const std::string& why) {
    commands->add_result([served, tokenizer = std::move(tokenizer), why, &clock] {
      served->is_reading = false;
      served->tokenizer = tokenizer;
      served->lacks_tokenizer = tokenizer == nullptr;
      if (tokenizer != nullptr) return;
      if (++served->reads_failed == kReadsFailedTold) spdlog::warn("a job's tokenizer is tried again and again: {}", why);
      served->read_again_ms = clock.steady_ms() + served->read_pause_ms;
      served->read_pause_ms = std::min(kReadAgainMs, 2 * served->read_pause_ms);
    });
  };
  const bool posted =
      storage::valid_key(object) && tokenizers_.post(
                                        [tell, path] {
                                          auto tokenizer = model::Tokenizer::load(path);
                                          if (!tokenizer) return tell(nullptr, tokenizer.error());
                                          tell(std::shared_ptr<const model::Tokenizer>(*std::move(tokenizer)), "");
                                        },
                                        [tell](const std::string& why) { tell(nullptr, why); });
  if (!posted) served->is_reading = false;
}

// --- time

// The registry knows who is there.
void ServingApi::tend_replicas(const Job& job, Served& served) {
  const auto& workers = turn_.state.workers();
  const auto& participants = job.membership->participants;
  const auto is_there = [&](const std::string& name) {
    const auto worker = workers.find(name);
    return worker != workers.end() && worker->second.life == Worker::Life::kAlive && worker->second.job == job.id;
  };
  const auto presence_of = [&](const std::string& name, const std::string& incarnation) {
    const auto participant = participants.find(name);
    if (!is_there(name) || participant == participants.end() || participant->second.member.incarnation != incarnation)
      return Replicas::Presence::kGone;
    const bool leaves = workers.at(name).leaving() || !participant->second.wanted;
    return leaves ? Replicas::Presence::kLeaves : Replicas::Presence::kStays;
  };
  const Millis now = turn_.clock.steady_ms();
  bool all_were_heard = true;
  if (served.replicas.is_divided() && now < served.began_ms + kAllHeardMs) {
    const std::vector<std::string> heard = served.replicas.workers();
    for (const auto& [name, participant] : participants)
      all_were_heard = all_were_heard && (!is_there(name) || std::ranges::find(heard, name) != heard.end());
  }
  served.replicas.tend(now, presence_of, all_were_heard);
  aim(job, served);
}

void ServingApi::tend() {
  if (served_.empty()) return;
  const Millis now = turn_.clock.steady_ms();
  std::set<std::string> touched;
  for (auto at = served_.begin(); at != served_.end();) {
    Served& served = *at->second;
    const Job* const job = job_of(at->first);
    if (job == nullptr) {
      served.replicas.texts().end_all();
      at = served_.erase(at);
      continue;
    }
    read_tokenizer(at->first, now);
    tend_replicas(*job, served);
    touched.merge(served.replicas.texts().take_touched());
    const std::vector<std::string> wanted = served.replicas.wanted();
    for (const std::string& name : served.replicas.workers()) {
      if (served.lacks_tokenizer || served.replicas.is_news(name, wanted)) touched.insert(name);
    }
    ++at;
  }
  polls_.look(touched, now, [this](const LongPolls::Poll& poll) { return answer_poll(poll); });
}

void ServingApi::add_metrics(PrometheusText& text) const {
  if (served_.empty()) return;
  desk_.add_metrics(text);
  const auto family = [&](const char* name, const char* type, const char* help, auto value) {
    text.family(name, type, help);
    for (const auto& [id, served] : served_) text.sample({{"job", id}}, static_cast<double>(value(served->replicas.texts())));
  };
  family("holdfast_serve_replicas", "gauge", "Replicas that a job has ready.",
         [](const ReplicaPool& pool) { return pool.replicas().size(); });
  family("holdfast_serve_texts_writing", "gauge", "Texts that replicas write.",
         [](const ReplicaPool& pool) { return pool.load().writing; });
  family("holdfast_serve_texts_waiting", "gauge", "Texts that wait for a replica.",
         [](const ReplicaPool& pool) { return pool.load().waiting; });
  family("holdfast_serve_texts_moved_total", "counter", "Texts that went on with another replica.",
         [](const ReplicaPool& pool) { return pool.load().moved; });
  family("holdfast_serve_written_tokens_total", "counter", "Tokens written.",
         [](const ReplicaPool& pool) { return pool.load().written_tokens; });
  text.family("holdfast_serve_pages", "gauge", "Pages of keys and values of a job's replicas; of them, held by texts.");
  for (const auto& [id, served] : served_) {
    const ReplicaPool::Load load = served->replicas.texts().load();
    text.sample({{"job", id}, {"pages", "all"}}, static_cast<double>(load.pages));
    text.sample({{"job", id}, {"pages", "held"}}, static_cast<double>(load.pages_held));
  }
}

void ServingApi::finish() {
  prompts_.finish();
}

void ServingApi::close() {
  is_closed_ = true;
  const HttpResponse goodbye = problem_answer(problem(503, "unavailable", "the service is stopping: try again"));
  polls_.close([&](const LongPolls::Poll& poll) {
    poll.reply(goodbye);
    return true;
  });
  for (const auto& [id, served] : served_) served->replicas.texts().end_all();
  served_.clear();
}

}  // namespace holdfast::rendezvous
