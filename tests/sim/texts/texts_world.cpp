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
constexpr int64_t kLeaseMs = 3000, kBeatMs = 500, kPollMaxMs = 60'000, kPatienceMs = 600'000, kAllHeardMs = 3000;
constexpr size_t kAtOnce = 12;

std::string source_of(int64_t step) {
  return fmt::format("job:j0@{}", step);
}

}  // namespace

TextsWorld::TextsWorld(uint64_t seed) : chance_(seed), stages_(chance_.percent(60) ? 1 : chance_.between(2, 3)) {
  const int64_t count = chance_.between(stages_, stages_ == 1 ? 4 : 2 * stages_ + 1);
  TextSurroundings& surroundings = *this;
  for (int64_t i = 0; i < count; ++i)
    replicas_.push_back(std::make_unique<TextReplica>(surroundings, chance_, fmt::format("w{}", i), stages_));
  begin_service();
}

TextsWorld::~TextsWorld() = default;

TextReplica& TextsWorld::replica_of(const std::string& name) const {
  return **std::ranges::find_if(replicas_, [&](const auto& replica) { return replica->name() == name; });
}

bool TextsWorld::can_be_read(const std::string& source) {
  return !gone_.contains(source) && (now_ms_ >= kFaultsMs || !chance_.percent(5));
}

bool TextsWorld::answers(const rendezvous::StageAddress& stage, const std::string& replica, const std::string& driver,
                         bool begins) {
  const auto found = std::ranges::find_if(replicas_, [&](const auto& one) { return one->has_stage_at(stage.url); });
  if (found == replicas_.end() || !(*found)->is_up()) return false;
  if (now_ms_ < cut_until_[replica] || now_ms_ < cut_until_[(*found)->name()]) return false;
  if (begins) driven_by_[stage.url] = driver;
  return driven_by_[stage.url] == driver;
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
  if (service_) moved_ += service_->replicas.texts().load().moved;
  service_ = std::make_unique<Service>(stages_, now_ms_);
  service_->life = fmt::format("life{}", ++lives_);
  for (const auto& asked : asked_) asked->has_ended = true;  // their clients are cut off
  aim();
}

void TextsWorld::aim() {
  rendezvous::Replicas& replicas = service_->replicas;
  replicas.aim(now_ms_, source_of(newest_), gone_.contains(replicas.aimed_at()));
}

std::string TextsWorld::answering() const {
  const rendezvous::HeldModel* const model = service_->replicas.answering();
  return model == nullptr ? "nothing" : model->source;
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
      for (const rendezvous::TextNews& news : report.news) service.replicas.texts().take(worker, report.incarnation, news);
    }
    const ReplicaOrders none{.life = service.life, .wanted = service.replicas.wanted()};
    return reply(worker, request, &none);
  }
  service.replicas.hear(worker, report);
  const Poll poll{request, report.life == service.life ? report.have : 0, now_ms_ + std::min(report.wait_ms, kPollMaxMs)};
  const auto before = service.polls.find(worker);
  if (before != service.polls.end()) {  // answered at once, in the same turn
    const ReplicaOrders orders = orders_for(worker, before->second.have);
    reply(worker, before->second.request, &orders);
  }
  service.polls[worker] = poll;
}

ReplicaOrders TextsWorld::orders_for(const std::string& worker, int64_t have) {
  ReplicaOrders orders = service_->replicas.orders_for(worker, have, service_->replicas.wanted());
  orders.life = service_->life;
  return orders;
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
}

void TextsWorld::tend_replicas() {
  Service& service = *service_;
  const auto presence_of = [&](const std::string& name, const std::string& incarnation) {
    Known& known = service.workers.at(name);
    if (std::exchange(known.is_given_up, false) || !known.is_there || known.incarnation != incarnation)
      return rendezvous::Replicas::Presence::kGone;
    return known.leaves_at > 0 ? rendezvous::Replicas::Presence::kLeaves : rendezvous::Replicas::Presence::kStays;
  };
  const bool all_were_heard = service.replicas.workers().size() == replicas_.size();
  service.replicas.tend(now_ms_, presence_of, all_were_heard || now_ms_ >= service.began_ms + kAllHeardMs);
  aim();
}

void TextsWorld::answer_polls() {
  Service& service = *service_;
  for (auto at = service.polls.begin(); at != service.polls.end();) {
    const auto& [worker, poll] = *at;
    const ReplicaOrders orders = orders_for(worker, poll.have);
    if (orders.orders.empty() && !service.replicas.is_news(worker, orders.wanted) && now_ms_ < poll.until_ms) {
      ++at;
      continue;
    }
    reply(worker, poll.request, &orders);
    at = service.polls.erase(at);
  }
}

// --- clients

void TextsWorld::ask(bool in_peace) {
  const rendezvous::HeldModel* model = service_->replicas.answering();
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
  if (!service_->replicas.texts().submit(*model, std::move(orders), asked->deadline)) asked_.push_back(std::move(asked));
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
      known->second.is_given_up = true;
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
  tend_replicas();
  answer_polls();
  judge();
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
  const size_t whole = replicas_.size() / static_cast<size_t>(stages_);
  const size_t count = whole * static_cast<size_t>(TextReplica::kTextsMax), before = asked_.size();
  for (size_t i = 0; i < count; ++i) ask(true);
  if (asked_.size() != before + count) broken("nobody answers, though nothing is wrong any more");
  step();
  if (service_->replicas.texts().load().waiting > 0) broken("a replica takes no texts, though nothing is wrong any more");
  run_until(now_ms_ + kPeaceMs);
  if (!all_have_ended()) broken("a text that came in peace is stuck");
  newest_ += 10;
  for (const int64_t until = now_ms_ + kPeaceMs; now_ms_ < until; step()) {
    if (service_->replicas.answering() == nullptr) broken("nobody answers while a newer checkpoint is read");
  }
  const std::string before_many = answering();
  if (before_many != source_of(newest_)) broken("{} answers, and not the newest checkpoint", before_many);
  for (const int64_t until = now_ms_ + kPeaceMs; now_ms_ < until; step()) newest_ += 10;  // faster than any can be read
  if (answering() == before_many) broken("no newer checkpoint answers, for they come too fast");
  run_until(now_ms_ + kPeaceMs);
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
  return {static_cast<int64_t>(asked_.size()), moved_ + service_->replicas.texts().load().moved, faults_};
}

}  // namespace holdfast::sim
