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
constexpr int64_t kPollWaitMs = 20'000, kAnswerMs = 5000, kReadAgainMs = 5000, kBackOffMs = 200, kConnectAgainMs = 1000,
                  kSaysUnreachedMs = 600'000;

}  // namespace

TextReplica::TextReplica(TextSurroundings& surroundings, Chance& chance, std::string name, int64_t stages)
    : surroundings_(surroundings), chance_(chance), name_(std::move(name)), stages_(stages) {
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
  held_.clear();
  unreadable_.clear();
  unreached_.clear();
  wanted_.clear();
  place_.reset();
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
                       .wanted = wanted_,
                       .place = place_};
  for (const auto& [source, model] : held_) {
    if (is_ready(model) && model.stage == stage())
      report.held.push_back({source, "of " + source, kPlayedBlock, kPlayedVocabulary, {.url = model.url}});
  }
  for (const auto& [source, tried] : unreadable_) report.unreadable.push_back({source, "it is not there"});
  for (const auto& [url, until] : unreached_) {
    if (surroundings_.now_ms() < until) report.unreached.push_back(url);
  }
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
    const auto gives_back = [](const rendezvous::TextNews& news) { return news.end == "given_back"; };
    if (std::ranges::any_of(news_->news, gives_back)) poll_.reset();  // a report says what it has all the same
    news_.reset();                                                    // taken; or refused, and the texts are others'
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
  if (reading_ && now >= reading_->until) {
    const Reading read = *std::exchange(reading_, {});
    is_prepared_ = surroundings_.can_be_read(read.source);
    if (is_prepared_) {
      hold(read);
    } else {
      wanted_.clear();  // asks again
    }
    return;
  }
  if (reading_) return;
  if (!wanted_.empty() && (stages_ == 1 || place_)) {
    reading_ = Reading{wanted_.front(), now + chance_.between(100, 1000), stage()};
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
  if (orders.place) place_ = orders.place;
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
    if (!writes(order.source)) {
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
    news_ = ReplicaReport{.incarnation = incarnation_,
                          .job = "j1",
                          .life = book_.life(),
                          .news = book_.take_news(static_cast<size_t>(chance_.between(1, 20'000)))};
  }
  delivery_ = Request{request(*news_), now + kAnswerMs};
}

bool TextReplica::has_stage_at(const std::string& url) const {
  return std::ranges::any_of(held_, [&](const auto& entry) { return entry.second.url == url; });
}

bool TextReplica::is_ready(const Held& model) const {
  return stages_ == 1 || !is_last(model) || (!model.connected_to.empty() && !model.is_lost);
}

bool TextReplica::writes(const std::string& source) const {
  const auto found = held_.find(source);
  return found != held_.end() && is_last(found->second) && is_ready(found->second);
}

void TextReplica::hold(const Reading& read) {
  held_[read.source] = {.since = surroundings_.now_ms(), .stage = read.stage};
  if (read.stage < stages_ - 1) held_[read.source].url = fmt::format("{}/{}", incarnation_, ++made_);
}

std::optional<std::string> TextReplica::missing() const {
  const auto tried = [this](const std::string& source) {
    const auto found = unreadable_.find(source);
    return found == unreadable_.end() ? int64_t{0} : found->second;
  };
  std::optional<std::string> next;
  for (const std::string& source : wanted_) {
    if (!holds(source) && (!next || tried(source) < tried(*next))) next = source;
  }
  return next;
}

void TextReplica::end_texts(const std::string& source) {
  std::erase_if(engine_, [&](const auto& entry) { return entry.second.source == source; });
  book_.give_back_all(source);
}

void TextReplica::drop_other_stages() {
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->second.stage == stage()) {
      ++at;
      continue;
    }
    end_texts(at->first);
    at = held_.erase(at);
    poll_.reset();
  }
}

void TextReplica::follow_earlier_stages() {
  const int64_t now = surroundings_.now_ms();
  if (!place_ || stage() != stages_ - 1) return;
  for (auto& [source, model] : held_) {
    const auto known = std::ranges::find(place_->earlier, source, &rendezvous::StagePlace::Earlier::source);
    const auto earlier = known == place_->earlier.end() ? std::vector<rendezvous::StageAddress>() : known->stages;
    if (model.connected_to == earlier && !model.is_lost) continue;
    if (model.tried == earlier && now < model.again) continue;
    model.tried = earlier;
    model.again = now + kConnectAgainMs;
    end_texts(source);
    model.connected_to.clear();
    model.is_lost = false;
    model.driver = fmt::format("{}/{}", incarnation_, ++made_);
    const auto answers = [&](const auto& stage) { return surroundings_.answers(stage, name_, model.driver, true); };
    const auto silent = std::ranges::find_if_not(earlier, answers);
    if (silent != earlier.end()) {
      unreached_[silent->url] = now + kSaysUnreachedMs;
    } else {
      model.connected_to = earlier;
      for (const auto& stage : earlier) unreached_.erase(stage.url);
    }
    poll_.reset();  // its next report says so
  }
}

// A pass through the stages before. Where one is lost, so are the texts here, and others go on with them.
bool TextReplica::passes(Held& model) {
  const auto answers = [&](const auto& stage) { return surroundings_.answers(stage, name_, model.driver, false); };
  return stages_ == 1 || std::ranges::all_of(model.connected_to, answers);
}

void TextReplica::keep_models() {
  const int64_t now = surroundings_.now_ms();
  drop_other_stages();
  if (reading_ && now >= reading_->until) {
    const Reading read = *std::exchange(reading_, {});
    const std::string& source = read.source;
    if (surroundings_.can_be_read(source)) {
      hold(read);
      unreadable_.erase(source);
    } else {
      unreadable_[source] = now;
      if (const auto again = missing(); again && unreadable_.contains(*again)) read_at_ = now + kReadAgainMs;
    }
    poll_.reset();  // its next report says so
  }
  const auto next = missing();
  if (!reading_ && next && now >= read_at_) reading_ = Reading{*next, now + chance_.between(100, 2000), stage()};
  const auto is_wanted = [&](const std::string& source) { return std::ranges::find(wanted_, source) != wanted_.end(); };
  for (auto at = held_.begin(); at != held_.end();) {
    if (is_wanted(at->first) || book_.writes_with(at->first) || held_.size() == 1) {
      ++at;
      continue;
    }
    at = held_.erase(at);
    poll_.reset();
  }
  std::erase_if(unreadable_, [&](const auto& entry) { return !is_wanted(entry.first); });
  follow_earlier_stages();
}

// Some tokens of some texts, as passes come.
void TextReplica::write() {
  for (auto& [source, model] : held_) {
    const bool has_texts = std::ranges::any_of(engine_, [&](const auto& entry) { return entry.second.source == source; });
    if (!has_texts || passes(model)) continue;
    if (chance_.percent(50)) return;  // the answer may still come
    model.is_lost = true;
    end_texts(source);
    poll_.reset();
  }
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
