// Which of several services writes to a database that they share: one leads, the others stand by.
//
// A service that holds a lock of the database may take the leadership, and begins a term: the next number, in a row of the
// database. Every transaction of a store insists on its term there and holds the row until it ends. So a service that lost the
// lock without knowing it can commit nothing, and what it was committing is done before the next term begins.
// A leader counts up `beats`, several times a second. A leader whose number stands still for `patience` while it holds the
// lock (it is frozen, or cut off) is deposed: a service that stands by ends its connections at the server. So is a leader that
// reaches the database and that nobody reaches: its beats say that it was asked for nothing for `patience`, and it answers the
// one that stands by nothing for as long; or it was asked for nothing for more than a second, and the one that stands by was,
// referred whoever asked to the leader, and they did not come there. A leader that anybody reaches keeps the lead, whoever else
// does not reach it. Only the observer's own steady clock is asked for that, no clock is compared with another's. A failover of
// the database's server begins a timeline, whose number is larger, and may lose what was committed last, terms too. So each
// timeline has terms of its own, kTermsOfTimeline of them: a number that a server before may have given out is not given out
// again. Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::rendezvous {

inline constexpr int64_t kTermsOfTimeline = 1'000'000;
// A beat counts one; and so many more where the leader was asked for something since the beat before.
inline constexpr int64_t kHeard = 1'000'000'000;

struct Leader {
  int64_t term = 0;     // 0: none ever led
  std::string service;  // the id of its process
  std::string address;  // where people and workers reach it
  std::string tokens;   // a digest of the token files that it takes
  bool operator==(const Leader&) const = default;
};
struct TermRow {
  int64_t term = 0, timeline = 0;  // the timeline: up to which a leader knows what the database may lack
};

// The database, as a connection of one service sees it. Each function throws StoreAway when the connection is lost, or what it
// waits for does not come; then this object is of no use any more.
class LeadershipTable {
 public:
  virtual ~LeadershipTable() = default;
  virtual bool take_lock() = 0;    // True: this connection has the lock, now or already. It goes with the connection.
  virtual TermRow lock_row() = 0;  // begins a transaction, after whoever has the row
  virtual void write_row(const Leader& leader, int64_t timeline) = 0;  // and commits
  virtual int64_t timeline() = 0;                                      // of the server, now
  virtual int64_t beats() = 0;
  virtual void count_beats(int64_t by) = 0;
  virtual Leader leader() = 0;
  virtual void depose(const Leader& leader) = 0;  // ends its connections
};

// The leader as a service that stands by knows it beside the database.
struct SeenOfLeader {
  std::optional<int64_t> unanswered_since_ms = std::nullopt;  // since when this service gets no answer; none: it does
  int64_t referred = 0;  // how many came to this service so far and were told to ask the leader
};

class Leadership {
 public:
  // `self` without its term. `table` outlives this object. `patience_ms`: of a clock that does not jump.
  Leadership(LeadershipTable& table, Leader self, int64_t patience_ms);

  // Looks once: takes the leadership if nobody has it, deposes a leader that stands still, or that nobody reaches. True: this
  // one leads. To be called a few times a second while it is false. Times are of one clock. Throws StoreAway.
  bool try_to_lead(int64_t now_ms, const SeenOfLeader& seen = {});
  // `heard`: somebody asked this service for something since the beat before.
  void beat(bool heard = true) { table_.count_beats(heard ? kHeard + 1 : 1); }
  int64_t term() const { return self_.term; }  // of this leader; 0 while it stands by
  // Whether this database may lack what was acknowledged in a timeline before: no leader has looked through it since, as the
  // row says, which keeps the timeline before until one has (settle_timeline).
  bool is_of_new_timeline() const { return new_timeline_; }
  int64_t timeline() const { return timeline_; }  // of the server when this term began

 private:
  bool take_lead();
  void begin_term();
  bool nobody_reaches_it(int64_t now_ms, int64_t beats, const SeenOfLeader& seen);

  LeadershipTable& table_;
  Leader self_;
  const int64_t patience_ms_;
  int64_t beats_seen_ = -1, seen_ms_ = 0;
  int64_t heard_seen_ = -1, heard_ms_ = 0;  // the part of the beats that says it, and when it last changed
  int64_t referred_seen_ = 0;               // then
  std::optional<int64_t> referred_ms_;      // when the first was referred to the leader since
  int64_t unreached_again_ms_ = 0;          // not before then is another leader deposed for being unreached
  bool new_timeline_ = false;
  int64_t timeline_ = 0;
};

}  // namespace holdfast::rendezvous
