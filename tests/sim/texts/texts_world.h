// One simulated run of a job that serves: a service that gives texts to replicas, replicas that are killed, frozen, cut off,
// taken away and brought back, checkpoints that come and go, clients that ask and go away; then there is peace. In some runs
// the model is divided, and a replica is several workers.
//
// The rules: every text is the one that its model writes alone, each token told once and in order, with its end at its place,
// once; a text times out only when its time is over, and then at once; it is lost only where no replica that is well has its
// model; a replica begins an order once, and goes on with a text from the text's own tokens; in peace every text ends before
// long, nothing of it is left with any replica, all replicas can write as many texts as they say, some model answers while a
// newer one is read, the newest before long, and a newer one from time to time where they come faster than they are read. The
// decisions are the real Replicas' and OrderBook's. Throws a Violation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/completions/replicas.h"
#include "tests/sim/chance.h"
#include "tests/sim/texts/text_replica.h"

namespace holdfast::sim {

struct TextsTally {
  int64_t texts = 0, moved = 0, faults = 0;
};

class TextsWorld : private TextSurroundings {
 public:
  explicit TextsWorld(uint64_t seed);
  ~TextsWorld() override;
  TextsTally run();

 private:
  struct Asked {  // a text of a client
    std::string source;
    model::Prompt prompt;
    int64_t deadline = 0, gives_up_after = 0;
    int64_t told_of_prompt = 0, told = 0;
    bool has_ended = false;
  };

  struct Known {  // a worker, in the service's registry
    std::string incarnation;
    int64_t heard_ms = 0, leaves_at = 0;  // leaves_at: 0: it stays
    bool is_there = true, is_given_up = false;
  };

  struct Poll {
    int64_t request = 0, have = 0, until_ms = 0;
  };

  struct Service {
    Service(int64_t stages, int64_t now) : replicas(stages), began_ms(now) {}
    std::string life;
    rendezvous::Replicas replicas;
    int64_t began_ms = 0;
    std::map<std::string, Known> workers;
    std::map<std::string, Poll> polls;
  };

  int64_t now_ms() const override { return now_ms_; }
  bool can_be_read(const std::string& source) override;
  bool answers(const rendezvous::StageAddress& stage, const std::string& replica, const std::string& driver,
               bool begins) override;
  void send(const std::string& replica, int64_t request, const rendezvous::ReplicaReport& report) override;

  // The network.
  void later(const std::string& replica, std::function<void()> what);
  void deliver();

  // The service.
  void begin_service();
  bool is_heard(const std::string& worker, const std::string& incarnation);
  void hear(const std::string& worker, int64_t request, const rendezvous::ReplicaReport& report);
  void reply(const std::string& worker, int64_t request, const rendezvous::ReplicaOrders* orders);
  void aim();
  std::string answering() const;  // the source; "nothing"
  rendezvous::ReplicaOrders orders_for(const std::string& worker, int64_t have);
  void tend_registry();
  void tend_replicas();
  void answer_polls();

  // Clients.
  void ask(bool in_peace);
  bool progress(Asked& asked, const std::vector<model::WrittenToken>& tokens, rendezvous::TextOutcome outcome);
  void check_lost(const Asked& asked) const;

  void faults();
  void disturb(TextReplica& replica, int64_t ms);
  void step();
  void judge();
  void judge_peace();
  TextReplica& replica_of(const std::string& name) const;

  Chance chance_;
  const int64_t stages_;
  int64_t now_ms_ = 0, newest_ = 10, service_down_until_ = 0, lives_ = 0, moved_ = 0, faults_ = 0;
  std::vector<std::unique_ptr<TextReplica>> replicas_;
  std::map<std::string, int64_t> cut_until_;      // the link of a replica's host
  std::map<std::string, std::string> driven_by_;  // a stage, by its address
  std::multimap<int64_t, std::function<void()>> messages_;
  std::set<std::string> ended_;  // incarnations, on the service's disk
  std::set<std::string> gone_;   // checkpoints that cannot be read any more
  std::unique_ptr<Service> service_;
  std::vector<std::unique_ptr<Asked>> asked_;
};

}  // namespace holdfast::sim
