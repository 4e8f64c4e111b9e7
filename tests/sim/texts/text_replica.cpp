#include "tests/sim/texts/text_replica.h"

#include <algorithm>
#include <utility>

#include "tests/sim/texts/played_text.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {
namespace {

using rendezvous::ReplicaOrders;
using rendezvous::ReplicaReport;
using rendezvous::TextOutcome;

// The limits of worker/replica/replica.cpp and worker/link/service_link.h.
constexpr int64_t kPollWaitMs = 20'000, kAnswerMs = 5000, kReadAgainMs = 5000, kBackOffMs = 200;

}  // namespace

TextReplica::TextReplica(TextSurroundings& surroundings, Chance& chance, std::string name)
    : surroundings_(surroundings), chance_(chance), name_(std::move(name)) {
  begin_process();
}

void TextReplica::begin_process() {
  incarnation_ = fmt::format("{}-{}", name_, ++processes_);
  while_frozen_.clear();
  forget_all();
}

void TextReplica::forget_all() {
  is_prepared_ = false;
  book_ = {};
  engine_.clear();
  held_since_.clear();
  unreadable_.clear();
  wanted_.clear();
  reading_.reset();
  poll_.reset();
  delivery_.reset();
  news_.reset();
  begun_.clear();
}

bool TextReplica::is_up() const {
  return surroundings_.now_ms() >= std::max(down_until_, frozen_until_);
}

void TextReplica::freeze(int64_t ms) {
  frozen_until_ = surroundings_.now_ms() + ms;
}

void TextReplica::kill(int64_t down_ms) {
  down_until_ = surroundings_.now_ms() + down_ms;
  begin_process();
}

void TextReplica::be_prepared_anew() {
  forget_all();
}

void TextReplica::heal() {
  frozen_until_ = down_until_ = 0;
}

void TextReplica::act() {
  if (!is_up()) return;
  for (const auto& [request, orders] : std::exchange(while_frozen_, {})) answer(request, orders);
  if (!is_prepared_) return prepare();
  keep_models();
  poll();
  write();
  send_news();
}

ReplicaReport TextReplica::report(int64_t wait_ms) const {
  ReplicaReport report{.incarnation = incarnation_,
                       .job = "j1",
                       .life = book_.life(),
                       .have = book_.have(),
                       .wait_ms = wait_ms,
                       .texts_max = kTextsMax,
                       .wanted = wanted_};
  for (const auto& [source, since] : held_since_)
    report.held.push_back({source, "of " + source, kPlayedBlock, kPlayedVocabulary});
  for (const auto& [source, why] : unreadable_) report.unreadable.push_back({source, why});
  return report;
}

int64_t TextReplica::request(const ReplicaReport& report) {
  surroundings_.send(name_, ++requests_, report);
  return requests_;
}

void TextReplica::answer(int64_t request, const std::optional<ReplicaOrders>& orders) {
  if (surroundings_.now_ms() < down_until_) return;
  if (!is_up()) return while_frozen_.emplace_back(request, orders), void();
  if (delivery_ && delivery_->number == request) {
    delivery_.reset();
    news_.reset();  // taken; or refused, and the texts are others'
  } else if (poll_ && poll_->number == request) {
    poll_.reset();
    if (orders) {
      take(*orders);
    } else {
      poll_at_ = surroundings_.now_ms() + kBackOffMs;
    }
  }
}

// Waits for what is wanted, and reads the first of it.
void TextReplica::prepare() {
  const int64_t now = surroundings_.now_ms();
  if (reading_ && now >= reading_->second) {
    const std::string source = std::exchange(reading_, {})->first;
    is_prepared_ = surroundings_.can_be_read(source);
    if (is_prepared_) {
      held_since_[source] = now;
    } else {
      wanted_.clear();  // asks again
    }
    return;
  }
  if (reading_) return;
  if (!wanted_.empty()) {
    reading_.emplace(wanted_.front(), now + chance_.between(100, 1000));
    return;
  }
  if (poll_ && now < poll_->limit_ms) return;
  poll_ = Request{request(report(1)), now + kAnswerMs};
}

void TextReplica::poll() {
  const int64_t now = surroundings_.now_ms();
  if (now < poll_at_ || (poll_ && now < poll_->limit_ms)) return;
  poll_ = Request{request(report(kPollWaitMs)), now + kPollWaitMs + kAnswerMs};
}

void TextReplica::take(const ReplicaOrders& orders) {
  if (!is_prepared_) {
    wanted_ = orders.wanted;
    return;
  }
  book_.hear_life(orders.life);
  wanted_ = orders.wanted;
  for (const rendezvous::ReplicaOrder& order : orders.orders) {
    const auto serial = book_.take(order);
    if (!serial) continue;
    if (!begun_.emplace(orders.life, order.text).second) broken("{} begins text {} twice", incarnation_, order.text);
    if (!holds(order.source)) {
      book_.give_back(*serial);
      continue;
    }
    const auto& written = order.prompt.written;
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i] != played_token(order.source, order.prompt, static_cast<int64_t>(i)))
        broken("{} is to go on with a text from a token, at {}, that is not the text's", incarnation_, i);
    }
    engine_[*serial] = {order.source, order.prompt, 0, static_cast<int64_t>(written.size())};
  }
}

void TextReplica::send_news() {
  const int64_t now = surroundings_.now_ms();
  if (delivery_ && now < delivery_->limit_ms) return;
  if (delivery_) {  // no answer: again, after a pause
    delivery_.reset();
    deliver_at_ = now + kBackOffMs;
  }
  if (now < deliver_at_) return;
  if (!news_) {
    if (!book_.has_news()) return;
    news_ = ReplicaReport{.incarnation = incarnation_, .job = "j1", .life = book_.life(), .news = book_.take_news()};
  }
  delivery_ = Request{request(*news_), now + kAnswerMs};
}

void TextReplica::keep_models() {
  const int64_t now = surroundings_.now_ms();
  if (reading_ && now >= reading_->second) {
    const std::string source = std::exchange(reading_, {})->first;
    if (surroundings_.can_be_read(source)) {
      held_since_[source] = now;
      unreadable_.erase(source);
    } else {
      unreadable_[source] = "it is not there";
      read_at_ = now + kReadAgainMs;
    }
    poll_.reset();  // its next report says so
  }
  const auto missing = std::ranges::find_if(wanted_, [&](const std::string& source) { return !holds(source); });
  if (!reading_ && missing != wanted_.end() && now >= read_at_) reading_.emplace(*missing, now + chance_.between(100, 2000));
  const auto is_wanted = [&](const std::string& source) { return std::ranges::find(wanted_, source) != wanted_.end(); };
  for (auto at = held_since_.begin(); at != held_since_.end();) {
    if (is_wanted(at->first) || book_.writes_with(at->first) || held_since_.size() == 1) {
      ++at;
      continue;
    }
    at = held_since_.erase(at);
    poll_.reset();
  }
  std::erase_if(unreadable_, [&](const auto& entry) { return !is_wanted(entry.first); });
}

// Some tokens of some texts, as passes come.
void TextReplica::write() {
  for (auto at = engine_.begin(); at != engine_.end();) {
    const auto [serial, text] = *at++;
    if (chance_.percent(60)) write(serial, engine_.at(serial));
  }
}

void TextReplica::write(int64_t serial, Text& text) {
  std::vector<model::WrittenToken> tokens;
  const int64_t of_prompt = prompt_told(text.prompt), length = played_length(text.source, text.prompt);
  for (int64_t left = chance_.between(0, 3); left > 0; --left) {
    if (text.prompt_told < of_prompt) {
      tokens.push_back({.token = {text.prompt.tokens[static_cast<size_t>(++text.prompt_told)], 0}, .of_prompt = true});
    } else if (text.written < length) {
      tokens.push_back({.token = {played_token(text.source, text.prompt, text.written++), 0}});
    }
  }
  const bool has_ended = text.prompt_told == of_prompt && text.written >= length;
  const bool is_wanted = book_.add(serial, tokens, has_ended ? played_end(text.source, text.prompt) : TextOutcome::kGoesOn);
  if (has_ended || !is_wanted) engine_.erase(serial);
}

}  // namespace holdfast::sim
