#include "worker/replica/order_book.h"

#include <algorithm>

namespace holdfast::worker {
namespace {

using rendezvous::TextNews;
using rendezvous::TextOutcome;

std::string words_of(TextOutcome outcome) {
  return outcome == TextOutcome::kGoesOn ? "" : outcome == TextOutcome::kStop ? "stop" : "length";
}

}  // namespace

// The service's numbers begin anew, and nobody waits for the texts of its last life.
void OrderBook::hear_life(const std::string& life) {
  if (life == life_) return;
  life_ = life;
  have_ = 0;
  texts_.clear();  // their engines hear of it when they go on
  news_.clear();
}

std::optional<int64_t> OrderBook::take(const rendezvous::ReplicaOrder& order) {
  if (order.number <= have_) return std::nullopt;  // it came before
  have_ = order.number;
  if (order.source.empty()) {
    std::erase_if(texts_, [&](const auto& entry) { return entry.second.number == order.text; });
    std::erase_if(news_, [&](const auto& entry) { return entry.second.text == order.text; });
    return std::nullopt;
  }
  const int64_t serial = next_serial_++;
  texts_[serial] = {.number = order.text, .source = order.source};
  return serial;
}

void OrderBook::give_back(int64_t serial) {
  const auto found = texts_.find(serial);
  if (found == texts_.end()) return;  // it was given up meanwhile
  news_[serial] = {.text = found->second.number, .end = "given_back"};
  texts_.erase(found);
}

void OrderBook::give_back_all(const std::string& source) {
  std::vector<int64_t> all;
  for (const auto& [serial, text] : texts_) {
    if (text.source == source) all.push_back(serial);
  }
  for (const int64_t serial : all) give_back(serial);
}

bool OrderBook::add(int64_t serial, const std::vector<model::WrittenToken>& tokens, TextOutcome outcome) {
  const auto found = texts_.find(serial);
  if (found == texts_.end()) return false;
  Text& text = found->second;
  if (!tokens.empty() || outcome != TextOutcome::kGoesOn) {
    TextNews& news = news_.try_emplace(serial, TextNews{.text = text.number, .first = text.told}).first->second;
    news.tokens.insert(news.tokens.end(), tokens.begin(), tokens.end());
    news.end = words_of(outcome);
    text.told += static_cast<int64_t>(tokens.size());
  }
  if (outcome != TextOutcome::kGoesOn) texts_.erase(found);
  return true;
}

bool OrderBook::writes_with(const std::string& source) const {
  return std::ranges::any_of(texts_, [&](const auto& entry) { return entry.second.source == source; });
}

std::vector<TextNews> OrderBook::take_news() {
  std::vector<TextNews> all;
  for (auto& [serial, news] : std::exchange(news_, {})) all.push_back(std::move(news));
  return all;
}

}  // namespace holdfast::worker
