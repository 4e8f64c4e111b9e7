// The texts that the replicas of one job write: which replica writes which, and what becomes of a text whose replica is lost.
//
// Promises: a text goes on, from the token that was told last, with another replica that has its model when its own is lost or
// taken away, and every token of it is told once, in order: as it would have gone on (Prompt::written). Replicas get texts in
// the order in which these came, the one with the fewest texts first, and none more than it writes at once; texts beyond that
// wait, at most kWaitingMax of them. A text keeps the model that it began with, by its fingerprint. It ends as kLost when every
// replica says that it cannot read that model, and as kTimedOut when its time is over. Whether it is wanted is asked once a
// second, also while it waits. News of a text from a replica that does not write it change nothing, and the replica is told to
// give it up. Pure: no clock, no I/O. Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/completions/replica_messages.h"
#include "rendezvous/completions/texts.h"

namespace holdfast::rendezvous {

class ReplicaPool {
 public:
  static constexpr int64_t kWaitingMax = 1024;
  using Millis = int64_t;  // of a steady clock

  // Texts of a model that a replica holds. Takes all, or none and says why.
  std::optional<TextRefused> submit(const HeldModel& model, std::vector<TextOrder> orders, Millis deadline);
  // Why so many texts more would be refused now, by their number; nothing: they would not.
  std::optional<TextRefused> refusal_of(int64_t texts) const;

  // A replica's report that waits: it is there, with what it holds. A new incarnation is another replica.
  void hear(const std::string& worker, const ReplicaReport& report);
  // It takes no more texts, and gives up those that another one can go on with.
  void retire(const std::string& worker);
  void keep(const std::string& worker);    // it takes texts again
  void forget(const std::string& worker);  // it is gone
  void take(const std::string& worker, const std::string& incarnation, const TextNews& news);
  void take_load(const std::string& worker, const ReplicaReport& report);

  void end_all();  // as kLost: nobody writes any more
  using IsUnreadable = std::function<bool(const std::string& source)>;
  // Gives out texts, and ends those whose time is over. `is_unreadable`: whether a model can be read by no replica any more;
  // nullptr: it is what all replicas here say that counts.
  void tend(Millis now, const IsUnreadable& is_unreadable = nullptr);
  // The orders after number `have`; older ones were acknowledged by it, and are forgotten.
  std::vector<ReplicaOrder> orders_for(const std::string& worker, int64_t have);
  std::set<std::string> take_touched();  // the replicas that have got orders since the last call

  // The model that requests are answered with: `wanted`, when at least half of the replicas have it, or else the one that most
  // have; null when none has any.
  const HeldModel* answering(const std::string& wanted) const;
  std::set<std::string> sources_in_use() const;
  int64_t lacking(const std::string& source) const;  // replicas that take texts, and do not have it
  std::vector<std::string> replicas() const;
  const std::string& incarnation_of(const std::string& worker) const { return replicas_.at(worker).last.incarnation; }
  std::vector<UnreadableModel> unreadable() const;  // as the replicas say it
  int64_t texts_of(const std::string& worker) const;
  struct Load {
    int64_t writing = 0, waiting = 0;
    int64_t moved = 0, written_tokens = 0;  // since the start; moved: from one replica to another
    int64_t pages = 0, pages_held = 0;      // of keys and values, as the replicas said last
  };
  Load load() const;

 private:
  struct Replica {
    ReplicaReport last;
    bool is_retired = false;
    int64_t texts = 0;                      // that it writes
    std::vector<ReplicaOrder> orders = {};  // not acknowledged yet
  };
  struct Text {
    std::string source, fingerprint;  // of its model
    TextOrder order;                  // its prompt with what is written so far
    Millis deadline = 0;
    Millis ask_again = 0;     // whether it is wanted
    std::string worker = {};  // "": nobody writes it now
    int64_t assignment = 0;   // the number by which that replica knows it
    int64_t by_order = 0;     // tokens that came by the order under way
    int64_t prompt_told = 0;  // of the prompt's own tokens
    int64_t to_skip = 0;      // of the order under way: prompt's tokens that were told before
    bool was_given = false;
  };
  using Texts = std::map<int64_t, Text>;

  bool has(const Replica& replica, const std::string& source, const std::string& fingerprint) const;
  bool all_say_unreadable(const std::string& source) const;
  Replica* replica_for(const Text& text, std::string& name);
  void forget_assignment(Text& text);
  void give(int64_t number, Text& text);
  void take_back(const std::string& worker, bool keep_what_others_cannot);
  void release(Text& text);
  void cancel_at(const std::string& worker, int64_t assignment);
  Texts::iterator end(Texts::iterator at, TextOutcome outcome);
  Texts::iterator drop(Texts::iterator at);
  bool tell(Text& text, const TextNews& news, TextOutcome outcome);

  std::map<std::string, Replica> replicas_;
  Texts texts_;                             // by age
  std::map<int64_t, int64_t> assignments_;  // -> text
  int64_t next_text_ = 1, next_assignment_ = 1, waiting_ = 0, moved_ = 0, written_tokens_ = 0;
  int64_t next_order_ = 1;  // of all replicas: one that is forgotten may come back, and has had the numbers before
  std::set<std::string> touched_;
};

}  // namespace holdfast::rendezvous
