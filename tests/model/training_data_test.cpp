// Training data: any worker can fill any microbatch, each source's windows come once per pass, and nothing is read before it
// has arrived.
#include "model/data/training_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "model/gpt2.h"

namespace holdfast::model {
namespace {

std::vector<uint16_t> counting(size_t tokens, uint16_t first = 0) {
  std::vector<uint16_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// The windows of all microbatches of a step, in order.
std::vector<TrainingWindow> windows_of_step(const TrainingData& data, int64_t step) {
  std::vector<TrainingWindow> all;
  for (int64_t microbatch = 0; microbatch < data.shape().microbatches; ++microbatch) {
    const auto windows = data.windows_of(step, microbatch);
    all.insert(all.end(), windows.begin(), windows.end());
  }
  return all;
}

uint64_t digest_of(const TrainingData& data, int64_t steps) {
  std::vector<int32_t> inputs(static_cast<size_t>(data.shape().tokens())), targets(inputs.size());
  uint64_t sum = 0;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t microbatch = 0; microbatch < data.shape().microbatches; ++microbatch) {
      data.fill(step, microbatch, inputs, targets);
      sum += microbatch_digest(step, microbatch, inputs, targets);
    }
  }
  return sum;
}

TEST(TrainingData, OfOneFileFollowsItsOrderPassByPass) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t seed = random();
    const BatchShape shape{1 + static_cast<int64_t>(random() % 5), 1 + static_cast<int64_t>(random() % 7),
                           1 + static_cast<int64_t>(random() % 6)};
    const auto tokens = counting(static_cast<size_t>(shape.block_size) + 1 + random() % 500);
    const TrainingData data({{.tokens = tokens}}, seed, shape);
    const DataOrder order{seed, windows_in(tokens, shape.block_size)};
    int64_t sequence = 0;
    for (int64_t step = 0; step < 20; ++step) {
      for (const TrainingWindow& window : windows_of_step(data, step)) {
        const int64_t expected = order.window_at(sequence / order.windows, sequence % order.windows);
        ASSERT_EQ(window, (TrainingWindow{0, static_cast<size_t>(expected * shape.block_size)})) << "round " << round;
        ++sequence;
      }
    }
  }
}

TEST(TrainingData, OfOneFileIsTheSameInEveryRelease) {
  std::vector<uint16_t> tokens(1001);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 7 % 50000);
  // This constant was written down before there were mixtures: with another a resumed job would train on different data.
  EXPECT_EQ(digest_of(TrainingData({{.tokens = tokens}}, 5, {4, 8, 3}), 40), 0xcf7b071bf49aa3c2U);
}

TEST(TrainingData, OfAMixtureIsTheSameInEveryRelease) {
  const auto wiki = counting(1001), code = counting(301, 2000);
  EXPECT_EQ(digest_of(TrainingData({{wiki, 7}, {code, 3}}, 5, {4, 8, 3}), 40), 0xf5c63873c993e4ebU);
}

TEST(TrainingData, AGlobalBatchMayStraddleTwoPasses) {
  const auto tokens = counting(29);  // 7 windows of 4
  const TrainingData data({{.tokens = tokens}}, 3, {2, 4, 3});
  std::map<size_t, int> seen;
  for (int64_t step = 0; step < 7; ++step) {
    for (const TrainingWindow& window : windows_of_step(data, step)) ++seen[window.first_token];
  }
  EXPECT_EQ(seen.size(), 7U);
  for (const auto& [token, times] : seen) EXPECT_EQ(times, 6) << token;
}

TEST(TrainingData, TargetsAreInputsShiftedByOneAndRowsAreTheirWindows) {
  const auto wiki = counting(41, 100), code = counting(29, 1000);
  const TrainingData data({{wiki, 1}, {code, 2}}, 9, {3, 4, 2});
  std::vector<int32_t> inputs(12), targets(12);
  std::set<size_t> sources;
  for (int64_t step = 0; step < 10; ++step) {
    data.fill(step, 1, inputs, targets);
    const auto windows = data.windows_of(step, 1);
    for (size_t row = 0; row < 3; ++row) {
      sources.insert(windows[row].source);
      const auto first = static_cast<int32_t>((windows[row].source == 0 ? 100 : 1000) + windows[row].first_token);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(inputs[row * 4 + i], first + static_cast<int32_t>(i));
        EXPECT_EQ(targets[row * 4 + i], first + static_cast<int32_t>(i) + 1);
      }
    }
  }
  EXPECT_EQ(sources, (std::set<size_t>{0, 1}));
}

// The windows of a source do not hang on the others, nor on how many workers there are.
TEST(TrainingData, AMixtureGoesThroughEachSourceAsIfItWereAlone) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<uint16_t>> files;
    std::vector<TrainingSource> sources;
    for (size_t i = 0; i < 2 + random() % 5; ++i) files.push_back(counting(5 + random() % 400));
    for (const auto& file : files) sources.push_back({file, 1 + static_cast<int64_t>(random() % 40)});
    const BatchShape shape{1 + static_cast<int64_t>(random() % 5), 4, 1 + static_cast<int64_t>(random() % 6)};
    const uint64_t seed = random();
    const TrainingData data(sources, seed, shape);
    std::vector<std::vector<size_t>> seen(files.size());
    for (int64_t step = 0; step < 100; ++step) {
      for (const TrainingWindow& window : windows_of_step(data, step)) seen[window.source].push_back(window.first_token);
    }
    for (size_t i = 0; i < files.size(); ++i) {
      const auto windows = static_cast<size_t>(windows_in(files[i], 4));
      for (size_t begin = 0; begin + windows <= seen[i].size(); begin += windows) {
        const std::set<size_t> pass(seen[i].begin() + static_cast<ptrdiff_t>(begin),
                                    seen[i].begin() + static_cast<ptrdiff_t>(begin + windows));
        ASSERT_EQ(pass.size(), windows) << "round " << round << ", source " << i << ": each window once per pass";
      }
    }
    // The first source's order is that of the job with this file alone.
    const TrainingData alone({{files[0]}}, seed, {1, 4, 1});
    for (size_t n = 0; n < seen[0].size(); ++n)
      ASSERT_EQ(seen[0][n], alone.windows_of(static_cast<int64_t>(n), 0)[0].first_token) << "round " << round;
  }
}

TEST(TrainingData, TwoSourcesWithTheSameTokensAreNotInStep) {
  const auto tokens = counting(4001);
  const TrainingData data({{tokens, 1}, {tokens, 1}}, 3, {2, 4, 1});
  int64_t equal = 0;
  for (int64_t step = 0; step < 1000; ++step) {
    const auto windows = data.windows_of(step, 0);
    equal += windows[0].first_token == windows[1].first_token ? 1 : 0;
  }
  EXPECT_LE(equal, 10);
}

// Notes what it was asked for, and may refuse.
class Noted : public DataArrival {
 public:
  void wait_for(size_t first_token, size_t count) override {
    if (interrupted) throw Interrupted{};
    waited.emplace_back(first_token, count);
  }
  std::vector<std::pair<size_t, size_t>> waited;
  bool interrupted = false;
};

TEST(TrainingData, WaitsForEachWindowOfASourceThatIsStillArriving) {
  const auto whole = counting(401), arriving = counting(81);
  Noted arrival;
  const TrainingData data({{whole, 1}, {arriving, 1, &arrival}}, 3, {8, 4, 2});
  std::vector<int32_t> inputs(32), targets(32);
  data.fill(6, 1, inputs, targets);
  std::vector<std::pair<size_t, size_t>> expected;
  for (const TrainingWindow& window : data.windows_of(6, 1)) {
    if (window.source == 1) expected.emplace_back(window.first_token, 5);
  }
  EXPECT_EQ(expected.size(), 4U);
  EXPECT_EQ(arrival.waited, expected);
}

TEST(TrainingData, IsNotFilledWhenAnArrivalIsInterrupted) {
  const auto tokens = counting(81);
  Noted arrival;
  arrival.interrupted = true;
  const TrainingData data({{tokens, 1, &arrival}}, 3, {2, 4, 2});
  std::vector<int32_t> inputs(8, -1), targets(8, -1);
  EXPECT_THROW(data.fill(0, 0, inputs, targets), Interrupted);
  EXPECT_EQ(inputs, std::vector<int32_t>(8, -1));
}

}  // namespace
}  // namespace holdfast::model
