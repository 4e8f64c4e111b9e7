#include "worker/step/exchange.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "worker/gradients/loss_sum.h"
#include "worker/link/step_history.h"

namespace holdfast::worker {
namespace {

StepReport sample() {
  StepReport report;
  report.step = 41;
  report.yield = true;
  report.leaving = true;
  report.loss = -5;
  report.tokens_digest = 0xFEDCBA9876543210ULL;
  report.acknowledged = 40;
  report.refused_in_row = 2;
  report.compute_us = 1500;
  report.maxima = {0.0F, 1.5F, std::numeric_limits<float>::infinity()};
  return report;
}

TEST(StepReport, GoesThroughItsBytes) {
  const StepReport report = sample();
  const auto decoded = decode_step_report(encode(report));
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(*decoded, report);
}

TEST(StepReport, IsLittleEndianInTheOrderThatIsWrittenDown) {
  const auto bytes = encode(sample());
  const auto at = [&](size_t i) { return std::to_integer<int>(bytes[i]); };
  EXPECT_EQ(
      std::string({static_cast<char>(at(0)), static_cast<char>(at(1)), static_cast<char>(at(2)), static_cast<char>(at(3))}),
      "HFX2");
  EXPECT_EQ(at(4), 41);     // step
  EXPECT_EQ(at(12), 5);     // yield, leaving
  EXPECT_EQ(at(24), 0x10);  // data digest
  EXPECT_EQ(bytes.size(), 4U + 8 + 4 + 8 + 8 + 8 + 8 + 8 + 4 + 3 * 4);
}

TEST(StepReport, RefusesEveryCutAndEveryTail) {
  auto bytes = encode(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_step_report(std::span(bytes).first(size))) << size << " of " << bytes.size() << " bytes";
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_step_report(bytes));
}

TEST(StepReport, RefusesOrReadsAnyBytesWithoutHarm) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = encode(sample());
    for (int flips = 0; flips < 4; ++flips) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(random() % (bytes.size() + 1));
    const auto decoded = decode_step_report(bytes);
    if (decoded) {
      EXPECT_EQ(encode(*decoded), bytes) << "seed 3, round " << i;
    }
  }
}

TEST(StepReport, RefusesALengthThatIsNotThere) {
  auto bytes = encode(sample());
  const size_t count_at = bytes.size() - 3 * 4 - 4;
  bytes[count_at + 3] = std::byte{0xFF};
  EXPECT_FALSE(decode_step_report(bytes));
}

TEST(Agreement, IsTheSameHoweverTheRanksAreOrderedAndMicrobatchesAreDealt) {
  StepReport a = sample();
  StepReport b = sample();
  b.yield = b.leaving = false;
  b.checkpoint = true;
  b.refused_in_row = 0;
  b.loss = 7;
  b.tokens_digest = 0x1111111111111111ULL;
  b.maxima = {2.0F, 1.0F, 0.0F};
  const StepReport ab[] = {a, b};
  const StepReport ba[] = {b, a};
  for (const auto& agreed : {agree(ab), agree(ba)}) {
    ASSERT_TRUE(agreed) << agreed.error().text;
    EXPECT_TRUE(agreed->yield);
    EXPECT_TRUE(agreed->checkpoint);
    EXPECT_FALSE(agreed->all_leaving);
    EXPECT_TRUE(agreed->finite);
    EXPECT_EQ(agreed->loss, 2);
    EXPECT_EQ(agreed->refused_in_row, 2);
    EXPECT_EQ(agreed->tokens_digest, 0x0FEDCBA987654321ULL);
    EXPECT_EQ(agreed->maxima, (std::vector<float>{2.0F, 1.5F, std::numeric_limits<float>::infinity()}));
  }
}

TEST(Agreement, NamesTheRankThatDiffers) {
  StepReport a = sample();
  StepReport b = sample();
  b.step = 42;
  const StepReport steps[] = {a, b};
  EXPECT_EQ(agree(steps).error().text, "rank 1 has step 42, rank 0 has 41: their states cannot be the same");
  b = sample();
  b.maxima.pop_back();
  const StepReport tensors[] = {a, b};
  EXPECT_NE(agree(tensors).error().text.find("number of tensors"), std::string::npos);
}

TEST(Hashes, ThatAreTheSameSayNothing) {
  EXPECT_FALSE(compare_hashes(40, std::vector<std::string>{"a", "a", "a"}));
  EXPECT_FALSE(compare_hashes(40, std::vector<std::string>{"a"}));
}

TEST(Hashes, OfTwoNobodyCanTellWhichIsRight) {
  const auto found = compare_hashes(40, std::vector<std::string>{"0123", "f123"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "after step 40 the hash of the state is 0123 at rank 0, f123 at rank 1");
  EXPECT_TRUE(found->odd.empty());
}

TEST(Hashes, MoreThanHalfSayWhoIsWrong) {
  EXPECT_EQ(compare_hashes(40, std::vector<std::string>{"0", "f", "0"})->odd, std::vector<int>{1});
  EXPECT_EQ(compare_hashes(40, std::vector<std::string>{"f", "0", "0", "a", "0"})->odd, (std::vector<int>{0, 3}));
  EXPECT_TRUE(compare_hashes(40, std::vector<std::string>{"f", "0", "0", "f"})->odd.empty());
}

TEST(LossSum, DoesNotDependOnTheOrder) {
  const std::vector<double> losses{10.8249, 0.1, 3.33333333, 1e-9, 7.25};
  int64_t forward = 0;
  int64_t backward = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    forward += loss_to_fixed(losses[i]);
    backward += loss_to_fixed(losses[losses.size() - 1 - i]);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_NEAR(loss_from_fixed(forward, 5), (10.8249 + 0.1 + 3.33333333 + 1e-9 + 7.25) / 5, 1e-8);
}

// --- the steps that the service has not confirmed

rendezvous::StepPoint point(int64_t step) {
  rendezvous::StepPoint p;
  p.step = step;
  p.loss = 1.0 / static_cast<double>(step);
  p.tokens_digest = "00000000000000ff";
  if (step % 2 == 0) p.validation_loss = 2.5;
  p.refused = step % 3 == 0;
  return p;
}

std::vector<int64_t> steps_of(const StepHistory& history) {
  std::vector<int64_t> steps;
  for (const auto& p : history.points()) steps.push_back(p.step);
  return steps;
}

TEST(StepHistory, KeepsAStepOnceUntilItIsConfirmed) {
  StepHistory history;
  for (const int64_t step : {1, 2, 3, 3, 2, 4}) history.add(point(step));
  EXPECT_EQ(steps_of(history), (std::vector<int64_t>{1, 2, 3, 4}));
  history.acknowledge(2);
  history.add(point(2));
  EXPECT_EQ(steps_of(history), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(history.oldest(1, 10'000).size(), 1U);
  EXPECT_EQ(history.oldest(2, 1).size(), 1U) << "one goes, however long it is";
}

TEST(StepHistory, VoidedStepsAreComputedAndKeptAgain) {
  StepHistory history;
  for (int64_t step = 1; step <= 6; ++step) history.add(point(step));
  history.acknowledge(5);
  history.truncate(3);
  EXPECT_TRUE(history.empty());
  history.add(point(4));
  EXPECT_EQ(steps_of(history), (std::vector<int64_t>{4}));
}

TEST(StepHistory, IsBoundedAndSaysWhatItDropped) {
  StepHistory history(1250);
  for (int64_t step = 1; step <= 13; ++step) history.add(point(step));
  EXPECT_EQ(history.points().front().step, 4);
  EXPECT_EQ(history.take_dropped(), 3);
  EXPECT_EQ(history.take_dropped(), 0);
  auto with_shares = point(14);
  with_shares.shares.resize(10);
  history.add(with_shares);
  EXPECT_EQ(history.points().front().step, 7) << "it takes the place of three";
}

TEST(StepHistory, PointsGoThroughTheirBytes) {
  const std::vector<rendezvous::StepPoint> points{point(1), point(2), point(3), point(6)};
  const auto bytes = encode_points(points);
  const auto decoded = decode_points(bytes);
  ASSERT_TRUE(decoded) << decoded.error();
  ASSERT_EQ(decoded->size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*decoded)[i].validation_loss, points[i].validation_loss);
    EXPECT_EQ((*decoded)[i].refused, points[i].refused);
  }
  EXPECT_EQ((*decoded)[1].step, 2);
  EXPECT_EQ((*decoded)[1].validation_loss, 2.5);
  EXPECT_FALSE((*decoded)[0].validation_loss.has_value());
  EXPECT_EQ((*decoded)[0].tokens_digest, "00000000000000ff");
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_points(std::span(bytes).first(size))) << size;
}

std::vector<std::vector<std::byte>> encoded(const std::vector<StepVerdict>& verdicts) {
  std::vector<std::vector<std::byte>> bytes;
  for (const StepVerdict& verdict : verdicts) bytes.push_back(encode(verdict));
  return bytes;
}

TEST(Verdicts, ThatAreTheSameCommitTheStep) {
  EXPECT_FALSE(compare_verdicts(encoded({{7, 5, false}, {7, 5, false}, {7, 5, false}})));
}

TEST(Verdicts, OfTheMinorityAreNamedAsOdd) {
  const auto found = compare_verdicts(encoded({{7, 5, false}, {7, 5, true}, {7, 5, false}}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->odd, std::vector<int>{1});
  EXPECT_EQ(found->text,
            "the ranks do not agree on what they committed: step 7 applied, tokens digest 5 at rank 0 and 2, step 7 left out, "
            "tokens digest 5 at rank 1");
}

TEST(Verdicts, OfTwoRanksThatDifferTrustNeither) {
  const auto found = compare_verdicts(encoded({{7, 5, false}, {7, 6, false}}));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->odd.empty());
}

TEST(Verdicts, OfAnOlderReleaseAreEmptyAndPassedOver) {
  auto bytes = encoded({{7, 5, false}, {7, 5, false}});
  bytes[0].clear();
  EXPECT_FALSE(compare_verdicts(bytes));
}

}  // namespace
}  // namespace holdfast::worker
