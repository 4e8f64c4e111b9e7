#include "rendezvous/completions/replica_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace holdfast::rendezvous {
namespace {

constexpr ReplicaPool::Millis kAskEveryMs = 1000;

TextOutcome outcome_of(const std::string& end) {
  if (end == "stop") return TextOutcome::kStop;
  return end.empty() ? TextOutcome::kGoesOn : TextOutcome::kLength;
}

}  // namespace

bool ReplicaPool::has(const Replica& replica, const std::string& source, const std::string& fingerprint) const {
  return std::ranges::any_of(
      replica.last.held, [&](const HeldModel& model) { return model.source == source && model.fingerprint == fingerprint; });
}

// A text waits for as long as a replica may still come to have its model.
bool ReplicaPool::all_say_unreadable(const std::string& source) const {
  return !replicas_.empty() && std::ranges::all_of(replicas_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.last.unreadable,
                               [&](const UnreadableModel& model) { return model.source == source; });
  });
}

std::optional<TextRefused> ReplicaPool::refusal_of(int64_t texts) const {
  if (waiting_ == 0 || waiting_ + texts <= kWaitingMax) return {};
  return TextRefused{.is_busy = true,
                     .why = fmt::format("{} texts wait already, of at most {}: try again later", waiting_, kWaitingMax)};
}

std::optional<TextRefused> ReplicaPool::submit(const HeldModel& model, std::vector<TextOrder> orders, Millis deadline) {
  const bool is_held =
      std::ranges::any_of(replicas_, [&](const auto& entry) { return has(entry.second, model.source, model.fingerprint); });
  if (!is_held) return TextRefused{.is_busy = true, .why = "no replica has the model ready: try again later"};
  for (const TextOrder& order : orders) {
    if (auto why = model::refusal_of(order.prompt, model.vocab_size, model.block_size))
      return TextRefused{.is_busy = false, .why = *std::move(why)};
  }
  if (auto busy = refusal_of(static_cast<int64_t>(orders.size()))) return busy;
  for (TextOrder& order : orders) {
    texts_[next_text_++] = {
        .source = model.source, .fingerprint = model.fingerprint, .order = std::move(order), .deadline = deadline};
    ++waiting_;
  }
  return {};
}

void ReplicaPool::hear(const std::string& worker, const ReplicaReport& report) {
  const auto known = replicas_.find(worker);
  if (known != replicas_.end() && known->second.last.incarnation != report.incarnation) forget(worker);
  replicas_[worker].last = report;
}

void ReplicaPool::retire(const std::string& worker) {
  const auto found = replicas_.find(worker);
  if (found == replicas_.end()) return;
  found->second.is_retired = true;
  take_back(worker, true);
}

void ReplicaPool::keep(const std::string& worker) {
  const auto found = replicas_.find(worker);
  if (found != replicas_.end()) found->second.is_retired = false;
}

void ReplicaPool::forget(const std::string& worker) {
  take_back(worker, false);
  replicas_.erase(worker);
  touched_.erase(worker);
}

void ReplicaPool::take_back(const std::string& worker, bool keep_what_others_cannot) {
  for (auto& [number, text] : texts_) {
    if (text.worker != worker) continue;
    std::string other;
    if (keep_what_others_cannot && replica_for(text, other) == nullptr) continue;
    if (keep_what_others_cannot) cancel_at(worker, text.assignment);
    release(text);
  }
}

// The text waits for another replica, and its order goes on from what was told.
void ReplicaPool::release(Text& text) {
  forget_assignment(text);
  ++waiting_;
}

void ReplicaPool::forget_assignment(Text& text) {
  --replicas_.at(text.worker).texts;
  assignments_.erase(text.assignment);
  text.worker.clear();
}

void ReplicaPool::cancel_at(const std::string& worker, int64_t assignment) {
  const auto found = replicas_.find(worker);
  if (found == replicas_.end()) return;
  Replica& replica = found->second;
  const auto is_cancel = [&](const ReplicaOrder& order) { return order.text == assignment && order.source.empty(); };
  if (std::ranges::any_of(replica.orders, is_cancel)) return;
  replica.orders.push_back({.number = next_order_++, .text = assignment});
  touched_.insert(worker);
}

ReplicaPool::Replica* ReplicaPool::replica_for(const Text& text, std::string& name) {
  Replica* best = nullptr;
  for (auto& [worker, replica] : replicas_) {
    if (replica.is_retired || replica.texts >= replica.last.texts_max) continue;
    if (!has(replica, text.source, text.fingerprint)) continue;
    if (best != nullptr && best->texts <= replica.texts) continue;
    best = &replica;
    name = worker;
  }
  return best;
}

void ReplicaPool::give(int64_t number, Text& text) {
  std::string worker;
  Replica* const replica = replica_for(text, worker);
  if (replica == nullptr) return;
  moved_ += text.was_given ? 1 : 0;
  text.was_given = true;
  text.worker = worker;
  text.assignment = next_assignment_++;
  assignments_[text.assignment] = number;
  text.by_order = 0;
  text.to_skip = text.prompt_told;
  --waiting_;
  ++replica->texts;
  replica->orders.push_back(
      {.number = next_order_++, .text = text.assignment, .source = text.source, .prompt = text.order.prompt});
  touched_.insert(worker);
}

void ReplicaPool::tend(Millis now, const IsUnreadable& is_unreadable) {
  const auto is_hopeless = [&](const std::string& source) {
    return is_unreadable ? is_unreadable(source) : all_say_unreadable(source);
  };
  for (auto at = texts_.begin(); at != texts_.end();) {
    Text& text = at->second;
    if (now > text.deadline) {
      at = end(at, TextOutcome::kTimedOut);
      continue;
    }
    if (now >= text.ask_again) {
      text.ask_again = now + kAskEveryMs;
      if (!text.order.on_progress({}, TextOutcome::kGoesOn)) {
        at = drop(at);
        continue;
      }
    }
    if (text.worker.empty()) give(at->first, text);
    if (text.worker.empty() && is_hopeless(text.source)) {
      at = end(at, TextOutcome::kLost);
      continue;
    }
    ++at;
  }
}

void ReplicaPool::end_all() {
  for (auto at = texts_.begin(); at != texts_.end();) at = end(at, TextOutcome::kLost);
}

ReplicaPool::Texts::iterator ReplicaPool::end(Texts::iterator at, TextOutcome outcome) {
  at->second.order.on_progress({}, outcome);
  return drop(at);
}

ReplicaPool::Texts::iterator ReplicaPool::drop(Texts::iterator at) {
  Text& text = at->second;
  if (text.worker.empty()) {
    --waiting_;
  } else {
    cancel_at(text.worker, text.assignment);
    forget_assignment(text);
  }
  return texts_.erase(at);
}

void ReplicaPool::take(const std::string& worker, const std::string& incarnation, const TextNews& news) {
  const auto replica = replicas_.find(worker);
  if (replica == replicas_.end() || replica->second.last.incarnation != incarnation) return;
  const auto assigned = assignments_.find(news.text);
  if (assigned == assignments_.end() || texts_.at(assigned->second).worker != worker) {
    if (news.end.empty()) cancel_at(worker, news.text);
    return;
  }
  const auto at = texts_.find(assigned->second);
  Text& text = at->second;
  if (news.first > text.by_order) return;  // tokens between are on their way again
  if (news.end == "given_back") {          // its model went meanwhile
    std::erase_if(replica->second.last.held, [&](const HeldModel& model) { return model.source == text.source; });
    return release(text);
  }
  const TextOutcome outcome = outcome_of(news.end);
  const bool wants_more = tell(text, news, outcome);
  if (wants_more && outcome == TextOutcome::kGoesOn) return;
  if (outcome == TextOutcome::kGoesOn) cancel_at(worker, text.assignment);
  forget_assignment(text);
  texts_.erase(at);
}

void ReplicaPool::take_load(const std::string& worker, const ReplicaReport& report) {
  const auto replica = replicas_.find(worker);
  if (replica == replicas_.end() || replica->second.last.incarnation != report.incarnation) return;
  replica->second.last.pages = report.pages;
  replica->second.last.pages_held = report.pages_held;
}

// Tells the tokens that are new. False: no more of it is wanted.
bool ReplicaPool::tell(Text& text, const TextNews& news, TextOutcome outcome) {
  std::vector<model::WrittenToken> fresh;
  for (size_t i = static_cast<size_t>(text.by_order - news.first); i < news.tokens.size(); ++i) {
    const model::WrittenToken& token = news.tokens[i];
    ++text.by_order;
    if (token.of_prompt && text.to_skip > 0) {
      --text.to_skip;
      continue;
    }
    if (token.of_prompt) {
      ++text.prompt_told;
    } else {
      text.order.prompt.written.push_back(token.token.id);
      ++written_tokens_;
    }
    fresh.push_back(token);
  }
  return text.order.on_progress(fresh, outcome);
}

std::vector<ReplicaOrder> ReplicaPool::orders_for(const std::string& worker, int64_t have) {
  const auto found = replicas_.find(worker);
  if (found == replicas_.end()) return {};
  std::vector<ReplicaOrder>& orders = found->second.orders;
  std::erase_if(orders, [&](const ReplicaOrder& order) { return order.number <= have; });
  return orders;
}

std::set<std::string> ReplicaPool::take_touched() {
  return std::exchange(touched_, {});
}

const HeldModel* ReplicaPool::answering(const std::string& wanted) const {
  using Model = std::pair<std::string, std::string>;  // by source and fingerprint
  std::map<Model, int64_t> holders;
  std::map<Model, const HeldModel*> models;
  int64_t replicas = 0, have_wanted = 0;
  for (const auto& [name, replica] : replicas_) {
    if (replica.is_retired) continue;
    ++replicas;
    for (const HeldModel& model : replica.last.held) {
      const Model key(model.source, model.fingerprint);
      ++holders[key];
      have_wanted += model.source == wanted ? 1 : 0;
      models[key] = &model;
    }
  }
  const auto rank = [&](const auto& entry) {
    const bool is_wanted = entry.first.first == wanted && 2 * have_wanted >= replicas;
    return std::pair(is_wanted, entry.second);
  };
  const auto best = std::ranges::max_element(holders, {}, rank);
  return best == holders.end() ? nullptr : models[best->first];
}

int64_t ReplicaPool::lacking(const std::string& source) const {
  return std::ranges::count_if(replicas_, [&](const auto& entry) {
    const std::vector<HeldModel>& held = entry.second.last.held;
    return !entry.second.is_retired && std::ranges::find(held, source, &HeldModel::source) == held.end();
  });
}

std::set<std::string> ReplicaPool::sources_in_use() const {
  std::set<std::string> sources;
  for (const auto& [number, text] : texts_) sources.insert(text.source);
  return sources;
}

std::vector<std::string> ReplicaPool::replicas() const {
  std::vector<std::string> names;
  for (const auto& [name, replica] : replicas_) names.push_back(name);
  return names;
}

std::vector<UnreadableModel> ReplicaPool::unreadable() const {
  std::vector<UnreadableModel> all;
  for (const auto& [name, replica] : replicas_) {
    for (const UnreadableModel& model : replica.last.unreadable) all.push_back({model.source, name + ": " + model.why});
  }
  return all;
}

int64_t ReplicaPool::texts_of(const std::string& worker) const {
  const auto found = replicas_.find(worker);
  return found == replicas_.end() ? 0 : found->second.texts;
}

ReplicaPool::Load ReplicaPool::load() const {
  Load load{.writing = static_cast<int64_t>(texts_.size()) - waiting_,
            .waiting = waiting_,
            .moved = moved_,
            .written_tokens = written_tokens_};
  for (const auto& [name, replica] : replicas_) {
    load.pages += replica.last.pages;
    load.pages_held += replica.last.pages_held;
  }
  return load;
}

}  // namespace holdfast::rendezvous
