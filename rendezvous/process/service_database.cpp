#include "rendezvous/process/service_database.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/process/leader_watch.h"
#include "rendezvous/store/postgresql/leader_beats.h"
#include "rendezvous/store/postgresql/leadership.h"
#include "rendezvous/store/postgresql/reading.h"
#include "rendezvous/store/postgresql/store.h"
#include "rendezvous/store/sqlite/store.h"

namespace holdfast::rendezvous {
namespace {

class FileOfOneService : public ServiceDatabase {
 public:
  explicit FileOfOneService(DatabaseChoice choice) : choice_(std::move(choice)) {}
  OpenDatabase open() override {
    OpenDatabase opened;
    opened.store = open_sqlite_store(choice_.data_dir + "/holdfast.sqlite", choice_.retention);
    return opened;
  }
  std::unique_ptr<StoreReading> open_reading() const override {
    throw StoreError("a database in a file has one service, and none that stands by");
  }

 private:
  const DatabaseChoice choice_;
};

class PostgresqlOfSeveral : public ServiceDatabase {
 public:
  explicit PostgresqlOfSeveral(DatabaseChoice choice) : choice_(std::move(choice)) {}

  OpenDatabase open() override {
    try {
      return open_as_leader();
    } catch (const StandsBy&) {
      throw;
    } catch (const StoreError&) {
      standing_by_.reset();  // its connection may be what failed
      throw;
    }
  }
  std::unique_ptr<StoreReading> open_reading() const override {
    return open_postgresql_reading(choice_.store, choice_.service);
  }

 private:
  OpenDatabase open_as_leader() {
    if (!standing_by_) standing_by_ = std::make_unique<PostgresqlLeadership>(leadership_options());
    if (!standing_by_->try_to_lead({watch_.unanswered_since(), choice_.requests->refused})) {
      const Leader leader = standing_by_->leader();
      watch_.look_at(leader.service == choice_.service ? "" : leader.address);
      insist_on_same_tokens(leader);
      throw StandsBy(fmt::format("this service stands by: the one at {} leads, in term {}", leader.address, leader.term),
                     leader.address);
    }
    watch_.look_at("");
    OpenDatabase opened;
    opened.term = standing_by_->term();
    opened.may_lack_some = standing_by_->is_of_new_timeline();
    if (opened.may_lack_some) {
      opened.made_good = [options = leadership_options(), term = opened.term, timeline = standing_by_->of_timeline()] {
        settle_timeline(options, term, timeline);
      };
    }
    const auto heard = [requests = choice_.requests, before = int64_t{-1}]() mutable {
      const int64_t now = requests->heard;
      return std::exchange(before, now) != now;
    };
    const auto beats = std::make_shared<LeaderBeats>(std::move(standing_by_), heard);
    opened.leadership = beats;
    opened.seen = [beats] { return beats->seen(); };
    opened.store = open_postgresql_store(
        {.address = choice_.store, .application_name = application_name(choice_.service), .term = opened.term},
        choice_.retention, [beats] { beats->check(); });
    return opened;
  }

  LeadershipOptions leadership_options() const {
    return {.database = choice_.store, .service = choice_.service, .address = choice_.address, .tokens = choice_.tokens};
  }

  void insist_on_same_tokens(const Leader& leader) const {
    if (leader.tokens == choice_.tokens || leader.service == choice_.service) return;
    throw StoreError(fmt::format(
        "the tokens in {} are not those of the service at {}, which leads with the same database: workers and people "
        "could not go from one to the other. Copy its admin.token and worker.token here",
        choice_.data_dir, leader.address));
  }

  const DatabaseChoice choice_;
  std::unique_ptr<PostgresqlLeadership> standing_by_;
  LeaderWatch watch_;  // of the leader, while this one stands by
};

}  // namespace

std::unique_ptr<ServiceDatabase> choose_database(DatabaseChoice choice) {
  if (choice.store.empty()) return std::make_unique<FileOfOneService>(std::move(choice));
  return std::make_unique<PostgresqlOfSeveral>(std::move(choice));
}

}  // namespace holdfast::rendezvous
