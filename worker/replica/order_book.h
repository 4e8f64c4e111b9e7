// The book of a replica's orders: the texts that it writes for the service, and the news of them that it has not sent yet.
//
// Promises: an order is taken once, however often it comes; news of a text say where in it they begin, and come in its order;
// what an earlier life of the service ordered is forgotten with its news. A text's serial is a number of our own that is never
// used again, for those of the service begin anew with it. Pure: no clock, no I/O. Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/completions/replica_messages.h"
#include "rendezvous/completions/texts.h"

namespace holdfast::worker {

class OrderBook {
 public:
  const std::string& life() const { return life_; }  // of the service, as it said last
  int64_t have() const { return have_; }             // the newest order that came
  // To be called with what the service says before its orders.
  void hear_life(const std::string& life);

  // The serial of a text that is to be begun; nothing where the order came before, or gives a text up.
  std::optional<int64_t> take(const rendezvous::ReplicaOrder& order);
  // A text that cannot be begun, or not go on, here: another replica is to write it.
  void give_back(int64_t serial);
  void give_back_all(const std::string& source);  // that are written with this model
  // More of a text. False: it is not wanted any more.
  bool add(int64_t serial, const std::vector<model::WrittenToken>& tokens, rendezvous::TextOutcome outcome);

  bool writes_with(const std::string& source) const;
  bool has_news() const { return !news_.empty(); }
  // News that were not taken before, of as many tokens as take about `bytes_max` in a report, and of one at least; the rest are
  // there yet.
  std::vector<rendezvous::TextNews> take_news(size_t bytes_max);
  // News that the service refused, and never heard: another replica is to go on with their texts.
  void give_back_what_was_refused(const std::vector<rendezvous::TextNews>& news);

 private:
  struct Text {
    int64_t number = 0;  // by which the service knows it
    std::string source;
    int64_t told = 0;  // tokens
  };

  void forget(int64_t number);  // a text and its news

  std::string life_;
  int64_t have_ = 0, next_serial_ = 1;
  std::map<int64_t, Text> texts_;                 // by serial
  std::map<int64_t, rendezvous::TextNews> news_;  // likewise
};

}  // namespace holdfast::worker
