// The replicas of one job: which checkpoint they are to come to have, however fast newer ones follow.
#include "rendezvous/completions/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace holdfast::rendezvous {
namespace {

using testing::ElementsAre;

const std::string kFirst = "job:j1@10", kSecond = "job:j1@20", kThird = "job:j1@30";

class Aimed : public testing::TestWithParam<int64_t> {  // stages
 protected:
  void hear(const std::string& worker, const std::vector<std::string>& held, std::vector<UnreadableModel> unreadable = {}) {
    ReplicaReport report{.incarnation = worker + "-1", .job = "j2", .wait_ms = 1, .unreadable = std::move(unreadable)};
    for (const std::string& source : held) report.held.push_back({source, "f", 64, 256, {.url = worker + "/" + source}});
    for (int i = 0; i < 2; ++i) {  // with the place that it has then
      replicas.hear(worker, report);
      tend(now);
      report.place = replicas.orders_for(worker, 0, {}).place;
    }
  }
  void all_hear(const std::vector<std::string>& held) {
    for (int i = 0; i < 2; ++i) {
      for (int64_t worker = 0; worker < 2 * GetParam(); ++worker) hear("w" + std::to_string(worker), held);
    }
  }
  void tend(int64_t at) {
    now = at;
    replicas.tend(
        now, [&](const auto&, const auto&) { return there ? Presence::kStays : Presence::kGone; }, true);
  }
  std::string answering() const {
    const HeldModel* const model = replicas.answering();
    return model == nullptr ? "" : model->source;
  }
  using Presence = Replicas::Presence;
  Replicas replicas{GetParam()};
  int64_t now = 0;
  bool there = true;
};

TEST_P(Aimed, AtOneThatTheyComeToHaveBeforeANewerOne) {
  replicas.aim(0, kFirst, false);
  all_hear({kFirst});
  EXPECT_EQ(answering(), kFirst);
  replicas.aim(1000, kSecond, false);
  EXPECT_THAT(replicas.wanted(), ElementsAre(kSecond, kFirst));
  replicas.aim(2000, kThird, false);
  EXPECT_THAT(replicas.wanted(), ElementsAre(kSecond, kFirst)) << "the third waits";
  all_hear({kFirst, kSecond});
  EXPECT_EQ(answering(), kSecond);
  replicas.aim(3000, kThird, false);
  EXPECT_THAT(replicas.wanted(), ElementsAre(kThird, kSecond));
  EXPECT_EQ(answering(), kSecond) << "and not what more of them have had for longer";
}

// A replica has room for two models.
TEST_P(Aimed, AtNoThirdWhileTextsGoOnWithTheFirst) {
  replicas.aim(0, kFirst, false);
  all_hear({kFirst});
  std::vector<TextOrder> orders;
  orders.push_back({{.tokens = {1}, .options = {.max_tokens = 4}}, [](const auto&, TextOutcome) { return true; }});
  ASSERT_FALSE(replicas.texts().submit(*replicas.answering(), std::move(orders), 1'000'000));
  replicas.aim(1000, kSecond, false);
  all_hear({kFirst, kSecond});
  replicas.aim(2000, kThird, false);
  EXPECT_EQ(answering(), kSecond);
  EXPECT_THAT(replicas.wanted(), ElementsAre(kSecond, kFirst));
  replicas.texts().end_all();
  replicas.aim(3000, kThird, false);
  EXPECT_THAT(replicas.wanted(), ElementsAre(kThird, kSecond));
}

TEST_P(Aimed, AtTheNewestWhereTheOtherIsGoneOrCannotBeReadOrNobodyIsThere) {
  replicas.aim(0, kFirst, false);
  replicas.aim(1, kSecond, false);
  EXPECT_EQ(replicas.aimed_at(), kSecond);
  all_hear({kSecond});
  replicas.aim(1000, kThird, false);
  replicas.aim(2000, "job:j1@40", true);
  EXPECT_EQ(replicas.aimed_at(), "job:j1@40") << "it was removed";
  hear("w1", {kSecond}, {{"job:j1@40", "it is not there"}});
  replicas.aim(3000, "job:j1@50", false);
  EXPECT_EQ(replicas.aimed_at(), "job:j1@40") << "others can";
  for (int64_t worker = 0; worker < 2 * GetParam(); ++worker)
    hear("w" + std::to_string(worker), {kSecond}, {{"job:j1@40", "it is not there"}});
  replicas.aim(3000, "job:j1@50", false);
  EXPECT_THAT(replicas.wanted(), ElementsAre("job:j1@50", kSecond));
  there = false;
  tend(4000);
  replicas.aim(4000, "job:j1@60", false);
  EXPECT_THAT(replicas.wanted(), ElementsAre("job:j1@60"));
}

// Checkpoints follow each other every half a minute, and each takes longer to read.
TEST_P(Aimed, AtOneForAsLongAsSuchAModelTakes) {
  const Replicas::Millis start = 1'000'000;  // of a clock that began long before
  replicas.aim(start, kFirst, false);
  all_hear({kFirst});
  replicas.aim(start, kSecond, false);
  replicas.aim(start + 59'999, kThird, false);
  EXPECT_EQ(replicas.aimed_at(), kSecond);
  replicas.aim(start + 60'000, kThird, false);
  EXPECT_EQ(replicas.aimed_at(), kThird) << "it took too long";
  replicas.aim(start + 160'000, "job:j1@40", false);
  EXPECT_EQ(replicas.aimed_at(), kThird) << "twice as long for this one";
  all_hear({kFirst, kThird});
  replicas.aim(start + 170'000, "job:j1@50", false);
  EXPECT_EQ(answering(), kThird);
  EXPECT_EQ(replicas.aimed_at(), "job:j1@50");
  replicas.aim(start + 170'000 + 219'999, "job:j1@60", false);
  EXPECT_EQ(replicas.aimed_at(), "job:j1@50") << "twice as long as the last one took";
  replicas.aim(start + 170'000 + 220'000, "job:j1@60", false);
  EXPECT_EQ(replicas.aimed_at(), "job:j1@60");
}

INSTANTIATE_TEST_SUITE_P(Stages, Aimed, testing::Values(1, 2));

TEST(SlowReplicas, GetAsLongAgainAsHalfOfThemTook) {
  Replicas replicas(1);
  const auto hears = [&](const std::string& worker, const std::vector<std::string>& sources) {
    ReplicaReport report{.incarnation = worker + "-1", .job = "j2", .wait_ms = 1};
    for (const std::string& source : sources) report.held.push_back({source, "f", 64, 256});
    replicas.hear(worker, report);
  };
  replicas.aim(0, kFirst, false);
  for (const char* worker : {"w1", "w2"}) hears(worker, {kFirst});
  replicas.aim(0, kSecond, false);
  hears("w1", {kFirst, kSecond});
  replicas.aim(10'000, kThird, false);
  EXPECT_EQ(replicas.answering()->source, kSecond);
  replicas.aim(19'999, kThird, false);
  EXPECT_EQ(replicas.aimed_at(), kSecond) << "w2 reads it still";
  replicas.aim(20'000, kThird, false);
  EXPECT_EQ(replicas.aimed_at(), kThird);
}

TEST(AText, StaysWithItsModelWhereAnotherHasItsName) {
  ReplicaPool pool;
  const auto hears = [&](const std::string& worker, const std::string& fingerprint) {
    pool.hear(
        worker,
        {.incarnation = worker + "-1", .job = "j2", .wait_ms = 1, .texts_max = 2, .held = {{kFirst, fingerprint, 64, 256}}});
  };
  const auto asks = [&] {
    std::vector<TextOrder> orders;
    orders.push_back({{.tokens = {1}, .options = {.max_tokens = 4}}, [](const auto&, TextOutcome) { return true; }});
    return pool.submit({kFirst, "f", 64, 256}, std::move(orders), 1000);
  };
  for (const char* worker : {"w1", "w2"}) hears(worker, "f");
  hears("w3", "g");
  EXPECT_EQ(pool.answering(kFirst)->fingerprint, "f") << "what most have";
  EXPECT_FALSE(asks());
  pool.tend(0);
  for (const char* worker : {"w1", "w2"}) pool.forget(worker);
  pool.tend(1);
  EXPECT_EQ(pool.texts_of("w3"), 0);
  EXPECT_EQ(pool.load().waiting, 1);
  EXPECT_TRUE(asks()) << "nobody has that one now";
  hears("w1", "f");
  pool.tend(2);
  EXPECT_EQ(pool.texts_of("w1"), 1);
}

}  // namespace
}  // namespace holdfast::rendezvous
