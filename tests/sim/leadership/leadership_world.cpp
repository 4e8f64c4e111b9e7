#include "tests/sim/leadership/leadership_world.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "rendezvous/store/job_store.h"
#include "tests/sim/violation.h"

namespace holdfast::sim {
namespace {

using rendezvous::Leader;
using rendezvous::LeadershipTable;
using rendezvous::StoreAway;
using rendezvous::TermRow;

constexpr int64_t kLeaderPatienceMs = 2000, kTickMs = 50, kBeatMs = 250, kFaultsMs = 60'000, kPeaceMs = 60'000;
constexpr int64_t kReplacedWithinMs = 5000, kSettledMs = 25'000;
constexpr int64_t kAsksAgainMs = 500;
constexpr int64_t kServerNoticesMs = 8000;  // that a connection was cut: its keepalives
enum class Unreached { kByAll, kByServices, kByClients };

}  // namespace

// A service with its two connections: of the leadership, and of its store.
class LeadershipWorld::Service : private LeadershipTable {
 public:
  Service(LeadershipWorld& world, std::string name) : world_(world), name_(std::move(name)) {}

  // One step of time of it, if it can do anything.
  void act() {
    if (world_.now_ms_ < down_until_ || world_.now_ms_ < frozen_until_) return;
    try {
      if (!leadership_) begin_life();
      if (leadership_->term() == 0) {
        if (leadership_->try_to_lead(world_.now_ms_ + clock_ms_, {unanswered_since(), referred_})) store_ = connect();
        return;
      }
      if (world_.now_ms_ >= beat_at_) {
        beat_at_ = world_.now_ms_ + kBeatMs;
        leadership_->beat(world_.now_ms_ >= unreached_until_);
      }
      transact();
    } catch (const StoreAway&) {
      end_life(false);
    }
  }

  void freeze(int64_t ms) { frozen_until_ = world_.now_ms_ + ms; }
  void cut(int64_t ms) {
    cut_until_ = world_.now_ms_ + ms;
    for (const auto connection : {lease_, store_}) {
      if (connection) cut_[*connection] = world_.now_ms_ + kServerNoticesMs;
    }
  }
  void kill(int64_t ms) {
    down_until_ = world_.now_ms_ + ms;
    end_life(true);
  }
  void jump(int64_t ms) { clock_ms_ += ms; }
  void refer() { ++referred_; }  // somebody came, and was told to ask the leader
  // It reaches the database, and these do not reach it.
  void be_unreached(int64_t ms, Unreached by) {
    if (by != Unreached::kByClients) {
      unseen_until_ = world_.now_ms_ + ms;
      unseen_since_ = world_.now_ms_;
    }
    if (by != Unreached::kByServices) unreached_until_ = world_.now_ms_ + ms;
  }
  const std::string& name() const { return name_; }
  void heal() { frozen_until_ = cut_until_ = down_until_ = unseen_until_ = unreached_until_ = 0; }
  // The term in which it believes that it leads, as its memory has it; 0: it stands by, or answers nothing.
  int64_t believes() const {
    return world_.now_ms_ < down_until_ || world_.now_ms_ < frozen_until_ || !leadership_ ? 0 : leadership_->term();
  }
  // Connections that were cut go when the server notices.
  void notice() {
    std::erase_if(cut_, [&](const auto& cut) {
      if (world_.now_ms_ < cut.second) return false;
      world_.server_.end(cut.first);
      return true;
    });
  }

 private:
  // Of the leader, as the clock of this one has it.
  std::optional<int64_t> unanswered_since() const {
    for (const auto& other : world_.services_) {
      if (other->name_ == world_.server_.leader().service && world_.now_ms_ < other->unseen_until_)
        return other->unseen_since_ + clock_ms_;
    }
    return std::nullopt;
  }
  void begin_life() {
    lease_ = connect();
    LeadershipTable& table = *this;
    leadership_.emplace(table, Leader{0, name_, "http://" + name_, ""}, kLeaderPatienceMs);
  }
  // The process's end is seen by the server at once; that of a connection that is cut is not.
  void end_life(bool by_kill) {
    for (auto* connection : {&lease_, &store_}) {
      if (*connection && !cut_.contains(**connection) && (by_kill || world_.now_ms_ >= cut_until_))
        world_.server_.end(**connection);
      connection->reset();
    }
    leadership_.reset();
    begun_ = 0;
  }

  DatabaseServer::Connection connect() {
    if (world_.now_ms_ < cut_until_) throw StoreAway("no route");
    return world_.server_.connect(name_);
  }
  // A call at the server over a connection.
  DatabaseServer& over(const std::optional<DatabaseServer::Connection>& connection) {
    if (world_.now_ms_ < cut_until_ || !connection || cut_.contains(*connection) || !world_.server_.is_there(*connection))
      throw StoreAway("the connection is lost");
    return world_.server_;
  }

  // A transaction takes as many steps as chance has it: whatever happens meanwhile happens in its middle.
  void transact() {
    if (begun_ == 0) {
      if (!world_.chance_.percent(40)) return;
      switch (over(store_).begin(*store_, leadership_->term())) {
        case DatabaseServer::Begun::kOtherTerm:
          throw rendezvous::LostLeadership("another term");
        case DatabaseServer::Begun::kRowIsTaken:
          return;
        case DatabaseServer::Begun::kYes:
          begun_ = ++world_.submissions_;
      }
      return;
    }
    if (!world_.chance_.percent(50)) return;
    over(store_).commit(*store_, {leadership_->term(), name_, begun_});
    const int64_t done = std::exchange(begun_, 0);
    if (world_.now_ms_ < kFaultsMs && world_.chance_.percent(2)) {  // the answer is lost: nobody knows whether it was committed
      cut(500);
      throw StoreAway("no answer");
    }
    world_.acknowledged_.insert(done);
  }

  bool take_lock() override { return over(lease_).take_lock(*lease_); }
  TermRow lock_row() override {
    if (!over(lease_).lock_row(*lease_)) throw StoreAway("somebody has the row");
    return world_.server_.row();
  }
  void write_row(const Leader& leader, int64_t timeline) override { over(lease_).write_row(*lease_, leader, timeline); }
  int64_t timeline() override { return over(lease_).timeline; }
  int64_t beats() override { return over(lease_).beats; }
  void count_beats(int64_t by) override { over(lease_).beats += by; }
  Leader leader() override { return over(lease_).leader(); }
  void depose(const Leader& leader) override { over(lease_).end_all_of(leader.service); }

  LeadershipWorld& world_;
  const std::string name_;
  std::optional<DatabaseServer::Connection> lease_, store_;
  std::optional<rendezvous::Leadership> leadership_;
  std::map<DatabaseServer::Connection, int64_t> cut_;  // until the server notices
  int64_t frozen_until_ = 0, cut_until_ = 0, down_until_ = 0, clock_ms_ = 0, beat_at_ = 0, begun_ = 0;
  int64_t unreached_until_ = 0, unseen_until_ = 0, unseen_since_ = 0, referred_ = 0;
};

LeadershipWorld::LeadershipWorld(uint64_t seed) : chance_(seed), known_({"http://a", "http://b"}) {
  const int64_t count = chance_.between(2, 4);
  for (int64_t i = 0; i < count; ++i) services_.push_back(std::make_unique<Service>(*this, fmt::format("s{}", i)));
}

LeadershipWorld::~LeadershipWorld() = default;

void LeadershipWorld::step() {
  now_ms_ += kTickMs;
  // In any order, and some not at all.
  for (size_t left = services_.size(); left > 0; --left) chance_.of(services_)->act();
  for (const auto& service : services_) service->notice();
  if (chance_.percent(2)) server_.send_to_replica();
  ask_a_service();
  if (chance_.percent(20)) {
    Service& asked = *chance_.of(services_);
    if (asked.believes() == 0) asked.refer();
  }
  judge();
}

void LeadershipWorld::faults() {
  if (!chance_.percent(3)) return;
  ++faults_;
  Service& one = *chance_.of(services_);
  const int64_t ms = chance_.of(std::vector<int64_t>{100, 1000, 3000, 10'000});
  switch (chance_.below(6)) {
    case 0:
      return one.freeze(ms);
    case 1:
      return one.cut(ms);
    case 2:
      return one.kill(ms);
    case 3:
      return one.jump(ms);
    case 4:
      return one.be_unreached(ms, chance_.of(std::vector{Unreached::kByAll, Unreached::kByServices, Unreached::kByClients}));
    default:
      for (const auto& service : services_) service->cut(ms);
      lose_server();
  }
}

// It comes back as it was; or a replica takes its place that has everything, or that lacks the newest.
void LeadershipWorld::lose_server() {
  const int64_t how = chance_.below(3);
  if (how == 1) ++server_.timeline;
  if (how != 2) return;
  server_.fail_over_to_replica();
  judged_ = std::min(judged_, server_.commits().size());
  std::set<int64_t> there;
  for (const Commit& commit : server_.commits()) there.insert(commit.submission);
  std::erase_if(acknowledged_, [&](int64_t submission) { return !there.contains(submission); });
}

// A client that takes the answers of whoever answers, but for those of a term that it knows to be over.
void LeadershipWorld::ask_a_service() {
  const int64_t term = chance_.of(services_)->believes();
  if (term == 0 || !known_.note_term(term)) return;
  if (term < answered_term_) broken("an answer of term {} was taken after one of term {}", term, answered_term_);
  answered_term_ = term;
}

void LeadershipWorld::judge() {
  const auto& commits = server_.commits();
  for (; judged_ < commits.size(); ++judged_) {
    const Commit& commit = commits[judged_];
    if (judged_ > 0 && commit.term < commits[judged_ - 1].term)
      broken("{} committed in term {} after a commit of term {}", commit.service, commit.term, commits[judged_ - 1].term);
    const std::string& service = committed_in_.try_emplace(commit.term, commit.service).first->second;
    if (service != commit.service) broken("{} and {} both committed in term {}", service, commit.service, commit.term);
  }
}

void LeadershipWorld::judge_peace() {
  for (const auto& service : services_) service->heal();
  const size_t before = server_.commits().size();
  const int64_t until = now_ms_ + kPeaceMs;
  while (now_ms_ < until) step();
  if (server_.commits().size() < before + 50) broken("nobody leads, though nothing is wrong any more");
  const int64_t term = server_.commits().back().term;
  for (size_t i = server_.commits().size() - 20; i < server_.commits().size(); ++i) {
    if (server_.commits()[i].term != term) broken("the lead goes back and forth, though nothing is wrong any more");
  }
  replace_one_that_freezes();
  replace_one_that_nobody_reaches();
  std::set<int64_t> committed;
  for (const Commit& commit : server_.commits()) {
    if (!committed.insert(commit.submission).second) broken("submission {} was committed twice", commit.submission);
  }
  for (const int64_t submission : acknowledged_) {
    if (!committed.contains(submission)) broken("submission {} was acknowledged and is lost", submission);
  }
}

// The leader does nothing any more, and its connections stay.
void LeadershipWorld::replace_one_that_freezes() {
  const std::string leader = server_.commits().back().service;
  for (const auto& service : services_) {
    if (service->name() == leader) service->freeze(2 * kReplacedWithinMs);
  }
  const int64_t until = now_ms_ + kReplacedWithinMs;
  while (now_ms_ < until && server_.commits().back().service == leader) step();
  if (server_.commits().back().service == leader) broken("{} froze, and nobody took its place", leader);
}

// A leader that the others do not see, and that somebody else reaches, is let alone.
void LeadershipWorld::replace_one_that_nobody_reaches() {
  for (const Unreached by : {Unreached::kByServices, Unreached::kByAll, Unreached::kByClients}) {
    const int64_t settled = now_ms_ + kSettledMs;
    while (now_ms_ < settled) step();
    const std::string leader = server_.commits().back().service;
    for (const auto& service : services_) {
      if (service->name() == leader) service->be_unreached(kReplacedWithinMs, by);
    }
    const int64_t until = now_ms_ + kReplacedWithinMs;
    while (now_ms_ < until && server_.commits().back().service == leader) {
      step();
      if (now_ms_ % kAsksAgainMs != 0) continue;
      for (const auto& service : services_) {
        if (service->name() != leader) service->refer();  // a client in want of the leader, whom chance may never bring
      }
    }
    const bool replaced = server_.commits().back().service != leader;
    if (replaced && by == Unreached::kByServices) broken("{} was reached, and was replaced", leader);
    if (!replaced && by != Unreached::kByServices) broken("{} was reached by nobody, and nobody took its place", leader);
  }
}

LeadershipTally LeadershipWorld::run() {
  while (now_ms_ < kFaultsMs) {
    faults();
    step();
  }
  judge_peace();
  std::set<int64_t> terms;
  for (const Commit& commit : server_.commits()) terms.insert(commit.term);
  return {static_cast<int64_t>(server_.commits().size()), static_cast<int64_t>(terms.size()), faults_};
}

}  // namespace holdfast::sim
