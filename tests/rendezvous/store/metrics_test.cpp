// Steps in the store: the newest as rows, all of them as curves and digests, also after a job went back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "rendezvous/store/curve.h"
#include "rendezvous/store/sql/metrics.h"
#include "tests/rendezvous/store/engines.h"

namespace holdfast::rendezvous {
namespace {

class MetricsTest : public EngineTest {
 protected:
  MetricsTest() : store_(open()) {
    store_->begin();
    JobRow row;
    row.id = "j1";
    row.number = 1;
    row.spec = "{}";
    row.resume = "[]";
    store_->save_job(row);
  }

  static StepRow step(int64_t number, double loss, int64_t generation = 1) {
    StepRow row;
    row.job = "j1";
    row.time_ms = number;
    row.generation = generation;
    row.world_size = 2 + generation;
    row.point.step = number;
    row.point.loss = loss;
    row.point.gradient_norm = loss / 2;
    row.point.learning_rate = 1e-3;
    row.point.tokens = 100;
    row.point.step_s = 0.5;
    row.point.communication_s = 0.25;
    row.point.tokens_digest = fmt::format("{:016x}", 0x9E3779B97F4A7C15ULL * static_cast<uint64_t>(number + 1000 * generation));
    if (number % 100 == 0) row.point.validation_loss = loss + 1;
    return row;
  }

  // Adds steps to the store and to the reference.
  void add(int64_t first, int64_t last, int64_t generation, const std::function<double(int64_t)>& loss, int64_t batch = 50) {
    for (int64_t from = first; from <= last; from += batch) {
      std::vector<StepRow> rows;
      for (int64_t s = from; s <= std::min(last, from + batch - 1); ++s) {
        rows.push_back(step(s, loss(s), generation));
        truth_[s] = rows.back();
      }
      store_->add_steps("j1", rows);
    }
  }
  void void_from(int64_t first, int64_t generation) {
    store_->void_steps("j1", first, generation);
    truth_.erase(truth_.lower_bound(first), truth_.end());
  }

  // Checks that each point agrees with its steps, and that the points together have all steps.
  void expect_true(const std::vector<CurvePoint>& curve, int64_t at_most) const {
    ASSERT_LE(static_cast<int64_t>(curve.size()), at_most);
    auto next = truth_.begin();
    for (const CurvePoint& point : curve) {
      ASSERT_NE(next, truth_.end());
      ASSERT_EQ(point.first_step, next->first);
      CurvePoint expected = curve_point(next->second);
      for (++next; next != truth_.end() && next->first <= point.last_step; ++next) join(expected, curve_point(next->second));
      ASSERT_EQ(point.last_step, expected.last_step);
      ASSERT_EQ(point.steps, expected.steps) << "from step " << point.first_step;
      ASSERT_NEAR(point.loss, expected.loss, 1e-9) << "from step " << point.first_step;
      ASSERT_EQ(point.loss_min, expected.loss_min);
      ASSERT_EQ(point.loss_max, expected.loss_max);
      ASSERT_EQ(point.generation, expected.generation);
      ASSERT_EQ(point.world_size, expected.world_size);
      ASSERT_EQ(point.validation_loss, expected.validation_loss);
      ASSERT_EQ(point.tokens, expected.tokens);
      ASSERT_NEAR(point.step_s, expected.step_s, 1e-6);
    }
    ASSERT_EQ(next, truth_.end()) << "the curve ends too early";
  }
  void expect_digests() const {
    const auto digests = store_->records().digests("j1", {1, INT64_MAX - 1000});
    ASSERT_EQ(digests.size(), truth_.size());
    auto next = truth_.begin();
    for (const StepDigest& found : digests) {
      ASSERT_EQ(found.step, next->first);
      ASSERT_EQ(found.tokens_digest, next->second.point.tokens_digest);
      ASSERT_EQ(found.generation, next->second.generation);
      ++next;
    }
  }

  std::unique_ptr<JobStore> store_;
  std::map<int64_t, StepRow> truth_;
};

double falling(int64_t step) {
  return 2 + 8 / std::sqrt(static_cast<double>(step)) + std::sin(static_cast<double>(step));
}

TEST_P(MetricsTest, AShortJobIsShownStepByStep) {
  add(1, 40, 1, falling, 1);
  const auto curve = store_->records().curve("j1", 100);
  EXPECT_EQ(curve.size(), 40u);
  expect_true(curve, 100);
  expect_true(store_->records().curve("j1", 2), 2);
  EXPECT_EQ(store_->records().folded_to("j1"), 0);
  EXPECT_TRUE(store_->records().curve("j9", 100).empty());
}

TEST_P(MetricsTest, ALongJobKeepsItsNewestStepsAndAWholeCurve) {
  add(1, 30'000, 1, falling);
  add(30'001, 60'123, 2, falling, 500);
  const int64_t folded = store_->records().folded_to("j1");
  EXPECT_GT(folded, 39'000);
  EXPECT_EQ(store_->records().steps("j1", 0, 100'000).size(), static_cast<size_t>(60'123 - folded));
  for (const int64_t points : {2, 3, 100, 999, 5000}) {
    const auto curve = store_->records().curve("j1", points);
    EXPECT_GE(static_cast<int64_t>(curve.size()), points / 2) << "no coarser than it has to be";
    expect_true(curve, points);
  }
  expect_digests();
}

TEST_P(MetricsTest, AJobThatBeganAtALaterStepHasACurveFromThere) {
  add(1'000'001, 1'002'000, 1, falling);
  for (const int64_t points : {2, 77, 1000}) expect_true(store_->records().curve("j1", points), points);
  expect_digests();
}

TEST_P(MetricsTest, AJobWithAGapOfManyStepsHasACurveOfAllItsSteps) {
  add(1, 1000, 1, falling);
  add(100'001, 160'000, 1, falling);
  EXPECT_GT(store_->records().folded_to("j1"), 138'000) << "the oldest rows went";
  EXPECT_LE(store_->records().steps("j1", 0, 200'000).size(), 21'000u);
  for (const int64_t points : {2, 100, 999, 5000}) {
    expect_true(store_->records().curve("j1", points), points);
    if (HasFatalFailure()) return;
  }
  expect_digests();
}

// A row may be dropped only when a point has it.
TEST_P(MetricsTest, AfterAGapNoRowIsDroppedThatIsInNoPoint) {
  add(1, 1000, 1, falling);
  for (const int64_t begin : {200'001, 3'000'001}) {
    for (int64_t first = begin; first < begin + 3000; first += 100) {
      add(first, first + 99, 1, falling);
      expect_true(store_->records().curve("j1", 300), 300);
      if (HasFatalFailure()) return;
    }
  }
  expect_digests();
}

TEST_P(MetricsTest, StepsThatWereReportedLateAreInTheCurve) {
  add(1, 300, 1, falling);
  add(401, 1500, 1, falling);
  add(301, 400, 1, falling);
  for (const int64_t points : {2, 100, 2000}) expect_true(store_->records().curve("j1", points), points);
}

TEST_P(MetricsTest, AStepThatIsReportedAgainChangesNothing) {
  add(1, 24'000, 1, falling, 400);
  const auto before = store_->records().curve("j1", 50);
  store_->add_steps("j1", {step(3, 99), step(10'000, 99), step(23'990, 99)});
  expect_true(store_->records().curve("j1", 50), 50);
  EXPECT_EQ(store_->records().curve("j1", 50).size(), before.size());
  expect_digests();
}

TEST_P(MetricsTest, HoweverFarAJobGoesBackItsCurveHasOnlyTheStepsThatCount) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  const auto up_to = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)) + 1; };
  int64_t at = 0;
  for (int64_t generation = 1; generation <= 25; ++generation) {
    const int64_t to = at + up_to(3000);
    add(
        at + 1, to, generation, [&](int64_t s) { return falling(s) + static_cast<double>(generation); }, up_to(300));
    for (const int64_t points : {int64_t{2}, up_to(50) + 2, up_to(2000) + 2}) {
      expect_true(store_->records().curve("j1", points), points);
      if (HasFatalFailure()) return;
    }
    at = std::max<int64_t>(0, to - up_to(2500));
    if (random() % 3 == 0) at = to;
    void_from(at + 1, generation + 1);
    if (!truth_.empty()) expect_true(store_->records().curve("j1", 300), 300);
    if (HasFatalFailure()) return;
  }
  expect_digests();
}

TEST_P(MetricsTest, AJobThatGoesBackBeyondItsRowsKeepsTheCurveBeforeTheCut) {
  add(
      1, 10'001, 1, [](int64_t) { return 1.0; }, 400);
  add(
      10'002, 55'000, 1, [](int64_t) { return 1000.0; }, 400);
  void_from(10'002, 2);
  EXPECT_TRUE(store_->records().steps("j1", 0, 10).empty());
  expect_digests();
  add(10'002, 11'000, 2, [](int64_t) { return 3.0; });
  for (const int64_t points : {20, 700}) {
    const auto curve = store_->records().curve("j1", points);
    int64_t next = 1, mixed = 0;
    for (const CurvePoint& point : curve) {
      EXPECT_EQ(point.first_step, next);
      EXPECT_EQ(point.steps, point.last_step - point.first_step + 1);
      next = point.last_step + 1;
      mixed += point.loss_max > 3 ? 1 : 0;
    }
    EXPECT_EQ(next, 11'001);
    EXPECT_LE(mixed, 1) << "only the point that the cut went through may know of what was voided";
  }
  expect_digests();
}

TEST_P(MetricsTest, LossesThatAreNotFiniteAreCountedAndLeftOutOfMeans) {
  add(1, 1000, 1, [](int64_t s) { return s % 10 == 3 ? std::nan("") : s % 10 == 4 ? INFINITY : 2.0; });
  for (const CurvePoint& point : store_->records().curve("j1", 20)) {
    EXPECT_EQ(point.loss, 2.0);
    EXPECT_EQ(point.loss_max, 2.0);
    EXPECT_NEAR(static_cast<double>(point.loss_steps), 0.8 * static_cast<double>(point.steps), 4);
  }
  add(1001, 4000, 1, [](int64_t) { return std::nan(""); });
  EXPECT_TRUE(std::isnan(store_->records().curve("j1", 20).back().loss));
}

TEST_P(MetricsTest, TheWorldSizeOfAPastGenerationIsKnownFromItsMembers) {
  Generation generation;
  generation.number = 1;
  generation.members = {{"a", "a1", "a:1"}, {"b", "b1", "b:1"}, {"c", "c1", "c:1"}};
  store_->add_generation({"j1", generation, 0});
  StepRow row = step(1, 2.0);
  row.world_size = 0;
  StepRow unknown = step(2, 2.0, 9);
  unknown.world_size = 0;
  store_->add_steps("j1", {row, unknown});
  EXPECT_EQ(store_->records().steps("j1", 0, 10)[0].world_size, 3);
  EXPECT_EQ(store_->records().steps("j1", 0, 10)[1].world_size, 0);
}

HOLDFAST_ON_EACH_ENGINE(MetricsTest);

}  // namespace
}  // namespace holdfast::rendezvous
