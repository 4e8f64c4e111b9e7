// A simulated replica's process: what its threads do for orders, for news, for models and for texts, a step of time at once.
//
// Real: the book of its orders (worker/replica/order_book.h). Simulated after worker/replica/replica.cpp: its requests, each
// with a time limit, the models that it reads, and of divided ones its stage and those before it. Messages go through
// TextNetwork, which loses them and has them late. Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/completions/replica_messages.h"
#include "tests/sim/chance.h"
#include "worker/replica/order_book.h"

namespace holdfast::sim {

// The surroundings of a replica.
class TextSurroundings {
 public:
  virtual ~TextSurroundings() = default;
  virtual int64_t now_ms() const = 0;
  virtual bool can_be_read(const std::string& source) = 0;
  // Whether a stage answers this replica. `driver`: for a pass; it drives the stage from now on if it `begins`.
  virtual bool answers(const rendezvous::StageAddress& stage, const std::string& replica, const std::string& driver,
                       bool begins) = 0;
  // Sends a report of the replica; its answer, if one comes, is heard by answer() under the same number.
  virtual void send(const std::string& replica, int64_t request, const rendezvous::ReplicaReport& report) = 0;
};

class TextReplica {
 public:
  static constexpr int64_t kTextsMax = 4;

  TextReplica(TextSurroundings& surroundings, Chance& chance, std::string name, int64_t stages);

  void act();  // a step of time
  // The answer to a request; nothing: it was refused, for this life is over or the job has no use of it.
  void answer(int64_t request, const std::optional<rendezvous::ReplicaOrders>& orders);

  void freeze(int64_t ms);
  void kill(int64_t down_ms);
  void be_prepared_anew();  // by the same process: the job gave it up, and has it again
  void heal();

  const std::string& name() const { return name_; }
  const std::string& incarnation() const { return incarnation_; }
  bool is_up() const;  // neither down nor frozen
  bool is_ready() const { return is_prepared_ && is_up(); }
  bool holds(const std::string& source) const { return held_.contains(source); }
  int64_t held_since(const std::string& source) const { return held_.at(source).since; }
  bool has_stage_at(const std::string& url) const;
  bool is_idle() const { return engine_.empty() && !book_.has_news() && !news_; }
  size_t texts() const { return engine_.size(); }

 private:
  struct Text {
    std::string source;
    model::Prompt prompt;
    int64_t prompt_told = 0, written = 0;
  };
  struct Held {
    int64_t since = 0, stage = 0;
    std::string url = {};                                                 // of a stage but the last
    std::vector<rendezvous::StageAddress> connected_to = {}, tried = {};  // of the last
    std::string driver = {};
    bool is_lost = false;
    int64_t again = 0;  // when the same are tried again
  };
  struct Reading {
    std::string source;
    int64_t until = 0, stage = 0;
  };
  struct Request {
    int64_t number = 0, limit_ms = 0;
  };

  void begin_process();
  void forget_all();
  rendezvous::ReplicaReport report(int64_t wait_ms) const;
  int64_t request(const rendezvous::ReplicaReport& report);
  void prepare();
  void poll();
  void send_news();
  int64_t stage() const { return place_ ? place_->stage : 0; }
  bool is_last(const Held& model) const { return model.stage == stages_ - 1; }
  bool is_ready(const Held& model) const;
  bool writes(const std::string& source) const;
  void hold(const Reading& read);
  std::optional<std::string> missing() const;
  void end_texts(const std::string& source);
  void keep_models();
  void drop_other_stages();
  void follow_earlier_stages();
  bool passes(Held& model);
  void write();
  void write(int64_t serial, Text& text);
  void take(const rendezvous::ReplicaOrders& orders);

  TextSurroundings& surroundings_;
  Chance& chance_;
  const std::string name_;
  const int64_t stages_;
  std::string incarnation_;
  int64_t processes_ = 0, requests_ = 0, down_until_ = 0, frozen_until_ = 0;
  std::vector<std::pair<int64_t, std::optional<rendezvous::ReplicaOrders>>> while_frozen_;  // answers

  bool is_prepared_ = false;
  worker::OrderBook book_;
  std::map<int64_t, Text> engine_;             // by serial
  std::map<std::string, Held> held_;           // by source
  std::map<std::string, int64_t> unreadable_;  // source -> when it was tried last, in ms
  std::map<std::string, int64_t> unreached_;   // address of a stage -> until when it says so
  std::vector<std::string> wanted_;
  std::optional<rendezvous::StagePlace> place_;
  std::optional<Reading> reading_;
  int64_t made_ = 0;  // stages and drivers, by number
  std::optional<Request> poll_, delivery_;
  std::optional<rendezvous::ReplicaReport> news_;  // not accepted yet
  int64_t deliver_at_ = 0, poll_at_ = 0, read_at_ = 0;
  std::set<std::pair<std::string, int64_t>> begun_;  // texts, by the service's life and number
};

}  // namespace holdfast::sim
