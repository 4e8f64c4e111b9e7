#include "tests/sim/texts/texts_world.h"

#include <algorithm>
#include <utility>

#include "tests/sim/texts/played_text.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {
namespace {

using model::WrittenToken;
using rendezvous::ReplicaOrders;
using rendezvous::ReplicaPool;
using rendezvous::ReplicaReport;
using rendezvous::TextOutcome;

constexpr int64_t kTickMs = 50, kFaultsMs = 60'000, kSettledMs = 45'000, kPeaceMs = 15'000;
constexpr int64_t kLeaseMs = 3000, kBeatMs = 500, kPollMaxMs = 60'000, kPatienceMs = 600'000;
constexpr size_t kAtOnce = 12;

std::string source_of(int64_t step) {
  return fmt::format("job:j0@{}", step);
}

}  // namespace

struct TextsWorld::Asked {
  std::string source;
  model::Prompt prompt;
  int64_t deadline = 0, gives_up_after = 0;
  int64_t told_of_prompt = 0, told = 0;
  bool has_ended = false;
};

struct TextsWorld::Known {
  std::string incarnation;
  int64_t heard_ms = 0, leaves_at = 0;  // leaves_at: 0: it stays
  bool is_there = true;
};

struct TextsWorld::Poll {
  int64_t request = 0, have = 0, until_ms = 0;
  std::vector<std::string> wanted;  // as the replica knows it
};

struct TextsWorld::Service {
  std::string life;
  ReplicaPool pool;
  std::map<std::string, Known> workers;
  std::map<std::string, Poll> polls;
};

TextsWorld::TextsWorld(uint64_t seed) : chance_(seed) {
  const int64_t count = chance_.between(1, 4);
  TextSurroundings& surroundings = *this;
  for (int64_t i = 0; i < count; ++i)
    replicas_.push_back(std::make_unique<TextReplica>(surroundings, chance_, fmt::format("w{}", i)));
  begin_service();
}

TextsWorld::~TextsWorld() = default;

TextReplica& TextsWorld::replica_of(const std::string& name) const {
  return **std::ranges::find_if(replicas_, [&](const auto& replica) { return replica->name() == name; });
}

bool TextsWorld::can_be_read(const std::string& source) {
  return !gone_.contains(source) && (now_ms_ >= kFaultsMs || !chance_.percent(5));
}

// --- the network: a message is lost, late, or both in that it comes when nobody waits for it any more

void TextsWorld::later(const std::string& replica, std::function<void()> what) {
  const bool is_peace = now_ms_ >= kFaultsMs;
  int64_t at = now_ms_ + chance_.between(0, 100);
  if (now_ms_ < cut_until_[replica]) {
    if (chance_.percent(50)) return;
    at = cut_until_[replica];
  } else if (!is_peace && chance_.percent(5)) {
    if (chance_.percent(30)) return;
    at += chance_.between(0, 8000);
  }
  messages_.emplace(at, std::move(what));
}

void TextsWorld::deliver() {
  while (!messages_.empty() && messages_.begin()->first <= now_ms_) {
    const auto what = std::move(messages_.begin()->second);
    messages_.erase(messages_.begin());
    what();
  }
}

void TextsWorld::send(const std::string& replica, int64_t request, const ReplicaReport& report) {
  later(replica, [this, replica, request, report] {
    if (now_ms_ >= service_down_until_) hear(replica, request, report);
  });
}

void TextsWorld::reply(const std::string& worker, int64_t request, const ReplicaOrders* orders) {
  auto kept = orders == nullptr ? std::optional<ReplicaOrders>() : *orders;
  later(worker, [this, worker, request, kept = std::move(kept)] { replica_of(worker).answer(request, kept); });
}

// --- the service: rendezvous/api/serving/serving.cpp, and of the registry who is there

void TextsWorld::begin_service() {
  if (service_) moved_ += service_->pool.load().moved;
  service_ = std::make_unique<Service>();
  service_->life = fmt::format("life{}", ++lives_);
  for (const auto& asked : asked_) asked->has_ended = true;  // their clients are cut off
}

// A worker whose lease is over is taken back, unless the job has gone on without it.
bool TextsWorld::is_heard(const std::string& worker, const std::string& incarnation) {
  if (ended_.contains(incarnation)) return false;
  auto [known, is_new] = service_->workers.try_emplace(worker, Known{incarnation, now_ms_});
  if (known->second.incarnation != incarnation) {
    if (replica_of(worker).incarnation() != incarnation) return false;  // a late word
    ended_.insert(known->second.incarnation);
    known->second = {incarnation, now_ms_};
  }
  if (!known->second.is_there && chance_.percent(50)) {
    ended_.insert(incarnation);
    return false;
  }
  known->second.is_there = true;
  known->second.heard_ms = now_ms_;
  return true;
}

void TextsWorld::hear(const std::string& worker, int64_t request, const ReplicaReport& report) {
  if (!is_heard(worker, report.incarnation)) {
    if (replica_of(worker).incarnation() == report.incarnation) replica_of(worker).kill(chance_.between(50, 1000));
    return;
  }
  Service& service = *service_;
  if (report.wait_ms == 0) {
    if (report.life == service.life) {
      for (const rendezvous::TextNews& news : report.news) service.pool.take(worker, report.incarnation, news);
    }
    const ReplicaOrders none{.life = service.life, .wanted = wanted()};
    return reply(worker, request, &none);
  }
  if (!report.held.empty()) service.pool.hear(worker, report);
  const Poll poll{request, report.life == service.life ? report.have : 0, now_ms_ + std::min(report.wait_ms, kPollMaxMs),
                  report.wanted};
  const auto before = service.polls.find(worker);
  if (before != service.polls.end()) {  // answered at once, in the same turn
    const ReplicaOrders orders{service.life, service.pool.orders_for(worker, before->second.have), wanted(), false};
    reply(worker, before->second.request, &orders);
  }
  service.polls[worker] = poll;
}

std::vector<std::string> TextsWorld::wanted() const {
  std::vector<std::string> all = {source_of(newest_)};
  for (const std::string& source : service_->pool.sources_in_use()) {
    if (source != all.front()) all.push_back(source);
  }
  return all;
}

void TextsWorld::tend_registry() {
  Service& service = *service_;
  for (auto& [name, known] : service.workers) {
    if (now_ms_ > known.heard_ms + kLeaseMs) known.is_there = false;
    if (known.leaves_at == 0 || now_ms_ < known.leaves_at || !known.is_there) continue;
    ended_.insert(known.incarnation);
    known.is_there = false;
    if (replica_of(name).incarnation() == known.incarnation) replica_of(name).kill(chance_.between(50, 3000));
  }
  for (const std::string& name : service.pool.replicas()) {
    const Known& known = service.workers.at(name);
    if (!known.is_there || known.incarnation != service.pool.incarnation_of(name)) {
      service.pool.forget(name);
    } else if (known.leaves_at > 0) {
      service.pool.retire(name);
    } else {
      service.pool.keep(name);
    }
  }
}

void TextsWorld::answer_polls() {
  Service& service = *service_;
  for (auto at = service.polls.begin(); at != service.polls.end();) {
    const auto& [worker, poll] = *at;
    ReplicaOrders orders{service.life, service.pool.orders_for(worker, poll.have), wanted(), false};
    if (orders.orders.empty() && poll.wanted == orders.wanted && now_ms_ < poll.until_ms) {
      ++at;
      continue;
    }
    reply(worker, poll.request, &orders);
    at = service.polls.erase(at);
  }
}

// --- clients

void TextsWorld::ask(bool in_peace) {
  const rendezvous::HeldModel* model = service_->pool.answering(source_of(newest_));
  if (model == nullptr) return;
  auto asked = std::make_unique<Asked>();
  asked->source = model->source;
  for (int64_t i = chance_.between(1, 5); i > 0; --i)
    asked->prompt.tokens.push_back(static_cast<int32_t>(chance_.below(kPlayedVocabulary)));
  asked->prompt.options.max_tokens = chance_.between(1, 40);
  asked->prompt.options.seed = static_cast<uint64_t>(chance_.below(1 << 30));
  asked->prompt.prompt_losses = chance_.percent(30);
  const bool is_hasty = !in_peace && chance_.percent(10);
  asked->deadline = now_ms_ + (is_hasty ? 2000 : kPatienceMs);
  asked->gives_up_after = !in_peace && chance_.percent(15) ? chance_.between(1, 20) : kPlayedBlock;
  Asked* const text = asked.get();
  rendezvous::TextOrder order{asked->prompt, [this, text](const std::vector<WrittenToken>& tokens, TextOutcome outcome) {
                                return progress(*text, tokens, outcome);
                              }};
  std::vector<rendezvous::TextOrder> orders;
  orders.push_back(std::move(order));
  if (!service_->pool.submit(asked->source, std::move(orders), asked->deadline)) asked_.push_back(std::move(asked));
}

bool TextsWorld::progress(Asked& asked, const std::vector<WrittenToken>& tokens, TextOutcome outcome) {
  if (asked.has_ended) broken("a text is told of after its end");
  for (const WrittenToken& token : tokens) {
    const bool of_prompt = asked.told_of_prompt < prompt_told(asked.prompt);
    const int32_t expected = of_prompt ? asked.prompt.tokens[static_cast<size_t>(++asked.told_of_prompt)]
                                       : played_token(asked.source, asked.prompt, asked.told++);
    if (token.of_prompt != of_prompt || token.token.id != expected)
      broken("token {} of a text is {}, and it is {} that its model writes alone", asked.told, token.token.id, expected);
  }
  const int64_t length = played_length(asked.source, asked.prompt);
  if (asked.told > length) broken("a text of {} tokens has {}", length, asked.told);
  if (outcome == TextOutcome::kStop || outcome == TextOutcome::kLength) {
    if (asked.told != length || outcome != played_end(asked.source, asked.prompt))
      broken("a text of {} tokens ends after {}", length, asked.told);
  }
  if (outcome == TextOutcome::kTimedOut && now_ms_ <= asked.deadline) broken("a text timed out before its time was over");
  if (outcome == TextOutcome::kLost) check_lost(asked);
  asked.has_ended = outcome != TextOutcome::kGoesOn || asked.told >= asked.gives_up_after;
  return !asked.has_ended || outcome != TextOutcome::kGoesOn;
}

// A replica that has the model, and that the service has heard say so.
void TextsWorld::check_lost(const Asked& asked) const {
  for (const std::string& name : service_->pool.replicas()) {
    const TextReplica& replica = replica_of(name);
    const bool is_well = replica.is_ready() && now_ms_ >= cut_until_.find(name)->second;
    if (is_well && replica.holds(asked.source) && now_ms_ - replica.held_since(asked.source) > 10'000)
      broken("a text was called lost, and {} has its model", name);
  }
}

// --- time

void TextsWorld::disturb(TextReplica& replica, int64_t ms) {
  const auto known = service_->workers.find(replica.name());
  switch (chance_.below(5)) {
    case 0:
      return replica.kill(ms);
    case 1:
      return replica.freeze(ms);
    case 2:
      cut_until_[replica.name()] = now_ms_ + ms;
      return;
    case 3:  // drained
      if (known != service_->workers.end()) known->second.leaves_at = now_ms_ + ms;
      return;
    default:  // the job gives it up for a moment, and has it again
      if (known == service_->workers.end() || known->second.incarnation != replica.incarnation()) return;
      service_->pool.forget(replica.name());
      replica.be_prepared_anew();
  }
}

void TextsWorld::faults() {
  if (chance_.percent(1)) newest_ += 10;
  if (chance_.percent(1)) gone_.insert(source_of(newest_ - 10));
  if (!chance_.percent(3)) return;
  ++faults_;
  const int64_t ms = chance_.of(std::vector<int64_t>{100, 1000, 3500, 10'000});
  if (!chance_.percent(10)) return disturb(*chance_.of(replicas_), ms);
  service_down_until_ = now_ms_ + ms;
  begin_service();
}

void TextsWorld::step() {
  now_ms_ += kTickMs;
  deliver();
  for (const auto& replica : replicas_) {
    replica->act();
    if (now_ms_ % kBeatMs != 0 || !replica->is_up()) continue;
    later(replica->name(), [this, one = replica.get(), incarnation = replica->incarnation()] {
      if (now_ms_ >= service_down_until_ && !is_heard(one->name(), incarnation) && one->incarnation() == incarnation)
        one->kill(chance_.between(50, 1000));
    });
  }
  if (now_ms_ < service_down_until_) return;
  tend_registry();
  service_->pool.tend(now_ms_);
  answer_polls();
  judge();
}

void TextsWorld::judge() {
  int64_t under_way = 0;
  for (const auto& asked : asked_) {
    under_way += asked->has_ended ? 0 : 1;
    if (!asked->has_ended && now_ms_ > asked->deadline) broken("a text goes on after its time is over");
  }
  const ReplicaPool::Load load = service_->pool.load();
  if (load.waiting < 0 || load.writing < 0 || load.waiting + load.writing != under_way)
    broken("{} texts are under way, and {} are written and {} wait", under_way, load.writing, load.waiting);
  for (const std::string& name : service_->pool.replicas()) {
    if (service_->pool.texts_of(name) > TextReplica::kTextsMax) broken("{} has more texts than it writes", name);
  }
}

void TextsWorld::judge_peace() {
  for (const auto& replica : replicas_) replica->heal();
  for (auto& [name, until] : cut_until_) until = 0;
  service_down_until_ = 0;
  gone_.erase(source_of(newest_));
  const auto run_until = [this](int64_t until) {
    while (now_ms_ < until) step();
  };
  const auto all_have_ended = [this] {
    return std::ranges::all_of(asked_, [](const auto& asked) { return asked->has_ended; });
  };
  run_until(now_ms_ + kSettledMs);
  if (!all_have_ended()) broken("a text goes on and on, though nothing is wrong any more");
  // As many as all of them write at once, so that each must.
  const size_t count = replicas_.size() * static_cast<size_t>(TextReplica::kTextsMax), before = asked_.size();
  for (size_t i = 0; i < count; ++i) ask(true);
  if (asked_.size() != before + count) broken("nobody answers, though nothing is wrong any more");
  step();
  if (service_->pool.load().waiting > 0) broken("a replica takes no texts, though nothing is wrong any more");
  run_until(now_ms_ + kPeaceMs);
  if (!all_have_ended()) broken("a text that came in peace is stuck");
  for (const auto& replica : replicas_) {
    if (!replica->is_idle()) broken("{} has {} texts left that nobody wants", replica->name(), replica->texts());
  }
}

TextsTally TextsWorld::run() {
  while (now_ms_ < kFaultsMs) {
    faults();
    const auto under_way = std::ranges::count_if(asked_, [](const auto& asked) { return !asked->has_ended; });
    if (now_ms_ >= service_down_until_ && static_cast<size_t>(under_way) < kAtOnce && chance_.percent(30)) ask(false);
    step();
  }
  judge_peace();
  return {static_cast<int64_t>(asked_.size()), moved_ + service_->pool.load().moved, faults_};
}

}  // namespace holdfast::sim
