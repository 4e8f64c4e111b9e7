#include "worker/replica/order_book.h"

#include <algorithm>

namespace holdfast::worker {
namespace {

using rendezvous::TextNews;
using rendezvous::TextOutcome;

constexpr size_t kReportBytes = 64;  // of the news of a text, without its tokens

// At most, of a token as JSON: two numbers and their names for it and for each alternative.
size_t report_bytes(const model::WrittenToken& token) {
  return 64 * (1 + token.alternatives.size());
}

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
    forget(order.text);
    return std::nullopt;
  }
  const int64_t serial = next_serial_++;
  texts_[serial] = {.number = order.text, .source = order.source};
  return serial;
}

void OrderBook::forget(int64_t number) {
  std::erase_if(texts_, [&](const auto& entry) { return entry.second.number == number; });
  std::erase_if(news_, [&](const auto& entry) { return entry.second.text == number; });
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

std::vector<TextNews> OrderBook::take_news(size_t bytes_max) {
  std::vector<TextNews> all;
  size_t bytes = 0;
  while (!news_.empty() && (all.empty() || bytes < bytes_max)) {
    TextNews& news = news_.begin()->second;
    bytes += kReportBytes;
    auto end = news.tokens.begin();
    while (end != news.tokens.end() && (end == news.tokens.begin() || bytes < bytes_max)) bytes += report_bytes(*end++);
    if (end == news.tokens.end()) {
      all.push_back(std::move(news));
      news_.erase(news_.begin());
      continue;
    }
    all.push_back({.text = news.text, .first = news.first, .tokens = {news.tokens.begin(), end}});
    news.first += end - news.tokens.begin();
    news.tokens.erase(news.tokens.begin(), end);
  }
  return all;
}

void OrderBook::give_back_what_was_refused(const std::vector<TextNews>& refused) {
  for (const TextNews& news : refused) {
    if (news.end == "given_back") continue;
    forget(news.text);
    news_[next_serial_++] = {.text = news.text, .end = "given_back"};
  }
}

}  // namespace holdfast::worker
