// Services that share a PostgreSQL database: one leads, and only its transactions count.
#include "rendezvous/store/postgresql/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "rendezvous/store/postgresql/address.h"
#include "rendezvous/store/postgresql/leader_beats.h"
#include "rendezvous/store/postgresql/sql_text.h"
#include "rendezvous/store/postgresql/store.h"
#include "tests/rendezvous/store/postgresql_server.h"

namespace holdfast::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// How long a leader may be silent until it is deposed; and so long a service waits for the database, which can take a second
// for a commit where other programs write to the same disk.
constexpr milliseconds kPatience{4000};
constexpr milliseconds kLong{60'000};

class LeadershipTest : public testing::Test {
 protected:
  LeadershipTest() : address_(PostgresqlServer::shared().fresh_address()) { spdlog::set_level(spdlog::level::off); }

  LeadershipOptions options(const std::string& name, milliseconds patience = kPatience) const {
    return {.database = address_, .service = id_of(name), .address = "http://" + name, .tokens = "", .patience = patience};
  }
  std::unique_ptr<PostgresqlLeadership> service(const std::string& name, milliseconds patience = kPatience) {
    return std::make_unique<PostgresqlLeadership>(options(name, patience));
  }
  std::unique_ptr<JobStore> store(const PostgresqlLeadership& leadership) {
    return open_postgresql_store({.address = address_, .term = leadership.term()});
  }
  // The tests' databases are schemas of one, in which connections are found by their names.
  std::string id_of(const std::string& name) const { return name + address_.substr(address_.rfind('=')); }
  static void commit_event(JobStore& store, const std::string& message) {
    store.begin();
    store.add_event({0, 1, "", "", 0, "kind", message, ""});
    store.commit();
  }
  static bool leads_within(PostgresqlLeadership& leadership, milliseconds patience = kLong) {
    const auto deadline = steady_clock::now() + patience;
    while (steady_clock::now() < deadline) {
      if (leadership.try_to_lead()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
  // Not deposed for five seconds, in which the leader beats as often as LeaderBeats does; but not on a thread that may stand
  // still while the other one looks.
  static void stays_leader(PostgresqlLeadership& first, bool heard, const std::function<bool()>& second_leads) {
    const auto until = steady_clock::now() + milliseconds(5000);
    for (auto beat_at = steady_clock::now(); steady_clock::now() < until;) {
      if (steady_clock::now() >= beat_at) {
        first.beat(heard);
        beat_at = steady_clock::now() + milliseconds(250);
      }
      ASSERT_FALSE(second_leads());
      std::this_thread::sleep_for(milliseconds(10));
    }
    first.beat(heard);
  }

  const std::string address_;
};

TEST_F(LeadershipTest, OneLeadsAndTheOthersKnowWho) {
  const auto first = service("one"), second = service("two");
  EXPECT_TRUE(first->try_to_lead());
  EXPECT_EQ(first->term(), 1);
  EXPECT_FALSE(second->try_to_lead());
  EXPECT_EQ(second->leader().address, "http://one");
  EXPECT_EQ(second->leader().term, 1);
}

TEST_F(LeadershipTest, WhatALeaderGivesUpAnotherTakesInALaterTerm) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  first.reset();
  const auto second = service("two");
  EXPECT_TRUE(leads_within(*second));  // the server notices the end of a connection after a moment
  EXPECT_EQ(second->term(), 2);
}

TEST_F(LeadershipTest, AServiceOfAnEarlierTermCommitsNothing) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto old_store = store(*first);
  commit_event(*old_store, "of the first");
  old_store->confirm();
  first.reset();  // the lock alone: the store does not know
  const auto second = service("two");
  ASSERT_TRUE(leads_within(*second));
  EXPECT_THROW(old_store->confirm(), LostLeadership);
  EXPECT_THROW(commit_event(*old_store, "too late"), LostLeadership);
  const auto new_store = store(*second);
  commit_event(*new_store, "of the second");
  const auto events = new_store->records().events("", 0, 10);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].message, "of the first");
  EXPECT_EQ(events[1].message, "of the second");
}

// The old leader holds the row of the term while it commits: the new one begins after that, never in between.
TEST_F(LeadershipTest, ATransactionThatHasBegunIsDoneBeforeTheNextTerm) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto old_store = store(*first);
  old_store->begin();
  old_store->add_event({0, 1, "", "", 0, "kind", "of the first", ""});
  EXPECT_EQ(old_store->records().newest_event_id(""), 1);  // the server has begun it
  first.reset();
  const auto second = service("two", kLong);
  std::atomic<bool> leads = false;
  std::jthread waiting([&] { leads = leads_within(*second); });
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(leads);
  old_store->commit();
  waiting.join();
  EXPECT_TRUE(leads);
  EXPECT_EQ(store(*second)->records().events("", 0, 10).size(), 1u);
}

// Its connections stay, as those of a process that is stopped or cut off do.
TEST_F(LeadershipTest, ALeaderThatStandsStillIsDeposed) {
  const auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto old_store = open_postgresql_store(
      {.address = address_, .application_name = application_name(id_of("one")), .patience = kLong, .term = first->term()});
  old_store->begin();
  old_store->add_event({0, 1, "", "", 0, "kind", "half done", ""});
  EXPECT_EQ(old_store->records().newest_event_id(""), 1);
  const auto second = service("two");
  EXPECT_TRUE(leads_within(*second));
  EXPECT_EQ(second->term(), 2);
  EXPECT_THROW(old_store->commit(), StoreAway);
  EXPECT_THROW(first->beat(), StoreAway);
  EXPECT_TRUE(store(*second)->records().events("", 0, 10).empty());
}

TEST_F(LeadershipTest, ALeaderIsDeposedWhateverItsAddressLooksLike) {
  LeadershipOptions other = options("one");
  other.address = "10.0.0.5:7070";
  PostgresqlLeadership first(other);
  ASSERT_TRUE(first.try_to_lead());
  const auto second = service("two");
  EXPECT_TRUE(leads_within(*second));
}

TEST_F(LeadershipTest, ALeaderThatCountsIsNotDeposed) {
  const auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto second = service("two", milliseconds(2000));  // eight beats
  stays_leader(*first, false, [&] { return second->try_to_lead(); });
}

TEST_F(LeadershipTest, BeatsSayThatSomebodyReachesIt) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto beats_of = [&] { return std::stoll(PostgresqlServer::shared().query(address_, "SELECT number FROM beats")); };
  const LeaderBeats beats(std::move(first), [] { return true; });
  const auto deadline = steady_clock::now() + kLong;
  while (beats_of() < 8 * (kHeard + 1) && steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_GE(beats_of(), 8 * (kHeard + 1));
  EXPECT_EQ(beats_of() % (kHeard + 1), 0) << "each of them says so";
  EXPECT_LT(steady_clock::now(), deadline - std::chrono::seconds(30)) << "eight take two seconds, and seldom a few more";
}

// It reaches the database, and beats; the one that stands by gets no answer of it.
TEST_F(LeadershipTest, ALeaderWhomNobodyReachesIsDeposed) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const LeaderBeats beats(std::move(first), [] { return false; });
  const auto second = service("two");
  const auto silent = steady_clock::now();
  const auto deadline = silent + kLong;
  while (!second->try_to_lead({.unanswered_since = silent}) && steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(second->term(), 2);
  EXPECT_GE(steady_clock::now() - silent, kPatience);
}

// The one that stands by reaches it; those who ask for something do not.
TEST_F(LeadershipTest, ALeaderToWhomThoseDoNotComeWhoAreReferredToItIsDeposed) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const LeaderBeats beats(std::move(first), [] { return false; });
  const auto second = service("two", kLong);
  const auto quiet_until = steady_clock::now() + milliseconds(2000);
  while (steady_clock::now() < quiet_until) {
    ASSERT_FALSE(second->try_to_lead({.referred = 7})) << "nobody wants anything";
    std::this_thread::sleep_for(milliseconds(10));
  }
  const auto deadline = steady_clock::now() + kLong;
  while (!second->try_to_lead({.referred = 8}) && steady_clock::now() < deadline) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(second->term(), 2);
}

TEST_F(LeadershipTest, ALeaderWhomSomebodyReachesIsNotDeposed) {
  const auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const auto second = service("two", milliseconds(2000));
  const auto silent = steady_clock::now() - std::chrono::seconds(60);
  int64_t referred = 0;
  stays_leader(*first, true, [&] { return second->try_to_lead({.unanswered_since = silent, .referred = ++referred}); });
}

TEST_F(LeadershipTest, BeatsThatEndAreToldOf) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  const LeaderBeats beats(std::move(first));
  PostgresqlServer::shared().query(address_,
                                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" +
                                       application_name(id_of("one"), "http://one") + "'");
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  bool told = false;
  while (!told && steady_clock::now() < deadline) {
    try {
      beats.check();
      std::this_thread::sleep_for(milliseconds(10));
    } catch (const StoreAway&) {
      told = true;
    }
  }
  EXPECT_TRUE(told);
}

// Nothing of its connection tells a leader that only reads that another leads: a later term has to.
TEST_F(LeadershipTest, ALeaderWhoseTermHasPassedHearsOfItAtItsNextBeat) {
  auto first = service("one", milliseconds(20'000));
  ASSERT_TRUE(first->try_to_lead());
  const LeaderBeats beats(
      std::move(first), [] { return true; }, std::chrono::minutes(10));
  PostgresqlServer::shared().query(address_, "UPDATE leadership SET term = term + 1");
  EXPECT_THROW(
      {
        for (const auto until = steady_clock::now() + std::chrono::seconds(10); steady_clock::now() < until;) {
          beats.check();
          std::this_thread::sleep_for(milliseconds(10));
        }
      },
      LostLeadership);
}

TEST_F(LeadershipTest, ALeaderWhomTheDatabaseDoesNotConfirmStopsWhenItsLeaseIsOver) {
  auto first = service("one", milliseconds(20'000));
  ASSERT_TRUE(first->try_to_lead());
  const LeaderBeats beats(
      std::move(first), [] { return true; }, milliseconds(3000));
  beats.check();
  PostgresqlDatabase other({.address = address_, .patience = kLong});
  other.begin();
  other.prepare("UPDATE beats SET number = number").run();  // holds the row that a beat needs
  other.settle();
  const auto began = steady_clock::now();
  std::string why;
  while (why.empty() && steady_clock::now() < began + kLong) {
    try {
      beats.check();
      std::this_thread::sleep_for(milliseconds(10));
    } catch (const StoreAway& error) {
      why = error.what();
    }
  }
  EXPECT_THAT(why, HasSubstr("has not confirmed for"));
  other.roll_back();
}

// tests/sim/leadership has failovers with losses; here a term is of a timeline that is not the server's any more.
TEST_F(LeadershipTest, AFailoverOfTheServerIsNoticed) {
  auto first = service("one");
  ASSERT_TRUE(first->try_to_lead());
  EXPECT_FALSE(first->is_of_new_timeline());
  first.reset();
  PostgresqlServer::shared().query(address_, "UPDATE leadership SET timeline = timeline + 1");
  auto second = service("two");
  ASSERT_TRUE(leads_within(*second));
  EXPECT_TRUE(second->is_of_new_timeline());
  second.reset();  // before it had looked for what the database lacks
  auto third = service("three");
  ASSERT_TRUE(leads_within(*third));
  EXPECT_TRUE(third->is_of_new_timeline());
  settle_timeline(options("three"), third->term(), third->of_timeline());
  third.reset();
  const auto fourth = service("four");
  ASSERT_TRUE(leads_within(*fourth));
  EXPECT_FALSE(fourth->is_of_new_timeline());
}

TEST_F(LeadershipTest, ADatabaseOfANewerProgramIsRefusedWithBothVersions) {
  (void)service("one");
  PostgresqlServer::shared().query(address_, "INSERT INTO schema_version VALUES (77)");
  try {
    (void)service("two");
    FAIL() << "it was opened";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has schema version 77"));
    EXPECT_THAT(error.what(), HasSubstr("choose another --store"));
  }
}

TEST(PostgresqlAddress, NobodyWhoReadsALogReadsThePassword) {
  EXPECT_EQ(address_in_words("postgresql://u:secret@db1,db2:5433/holdfast?sslmode=require"), "postgresql://db1,db2/holdfast");
  EXPECT_TRUE(is_postgresql_address("postgres://x/y"));
  EXPECT_FALSE(is_postgresql_address("/var/lib/holdfast"));
  EXPECT_THROW(address_in_words("postgresql://h/d?nonsense=1"), StoreError);
}

TEST(PostgresqlAddress, AServerThatIsNotThereMayComeBackAndAWrongNameDoesNot) {
  EXPECT_THROW(PostgresqlDatabase({.address = "postgresql://holdfast@127.0.0.1:1/x"}), StoreAway);
  std::string wrong = PostgresqlServer::shared().fresh_address();
  wrong.replace(wrong.find("dbname=postgres"), 15, "dbname=nothing");
  try {
    PostgresqlDatabase database({.address = wrong});
    FAIL() << "it was opened";
  } catch (const StoreAway&) {
    FAIL() << "a wrong name does not pass";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"nothing\" does not exist"));
  }
}

TEST(PostgresqlText, ParametersStatementsAndBytes) {
  EXPECT_EQ(with_numbered_parameters("a = ? AND b = '?' AND c = ?2 OR d = ?"), "a = $1 AND b = '?' AND c = $2 OR d = $2");
  EXPECT_EQ(statements_of("A; B;\n").size(), 2u);
  EXPECT_EQ(storable_text(std::string("a\0b\xff\xc3\xa4", 6)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xc3\xa4");
}

}  // namespace
}  // namespace holdfast::rendezvous
