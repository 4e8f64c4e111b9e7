// Gradients of which each rank keeps what it owns: the same mean as where one rank has it all.
#include "worker/gradients/scattered_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>

#include "tests/worker/collectives/ring_of_threads.h"
#include "tests/worker/step/ranks_of_threads.h"
#include "worker/gradients/accumulator.h"

namespace holdfast::worker {
namespace {

constexpr int kRanks = 3;

GradientSetup setup_of(Session& session) {
  return {.ops = *session.ops,
          .model = *session.model,
          .data = session.training,
          .wire = *wire_type_of(session.spec.reduction, session.spec.wire_dtype),
          .dealt_units = session.spec.dealt_units()};
}

// A rank that has the parameters of the seed, and owns some chunks.
struct Scattering {
  Scattering(const rendezvous::JobSpec& spec, const std::string& url, int number)
      : rank(spec, url, "w" + std::to_string(number)), gradients(setup_of(*rank.session), kSmallBuckets) {
    EXPECT_TRUE(rank.session->state->initialize(*rank.session->initial));
    std::vector<SumPart> parts;
    const auto chunks = rank.session->model->table().chunks();
    for (size_t c = 0; c < chunks.size(); ++c) {
      const auto first = static_cast<int32_t>(c % kRanks);
      const std::vector<int32_t> owners{first, (first + 1) % kRanks};
      parts.push_back(part_for(static_cast<size_t>(chunks[c].first), static_cast<size_t>(chunks[c].count), owners, kRanks));
      if (std::ranges::find(owners, number) != owners.end()) own.push_back(chunks[c]);
    }
    gradients.divide(std::move(parts), own);
  }
  // So that every tensor is in several, and the embedding's rows are in more than that.
  static constexpr int64_t kSmallBuckets = 100;

  TestRank rank;
  ScatteredGradients gradients;
  std::vector<model::Elements> own;
};

// By the wire's type, and whether buckets go beside the passes.
class Scattered : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  Scattered() {
    spec.wire_dtype = std::get<0>(GetParam());
    spec.vocab_size = 1100;  // its gradient comes in several ranges
    auto divided = spec;
    divided.shard = "gradients";
    for (int rank = 0; rank < kRanks; ++rank) all.push_back(std::make_unique<Scattering>(divided, service.url(), rank));
    exponents = all[0]->gradients.first_exponents(0);
  }
  // The mean of the first step's microbatches as one rank has it that computes all.
  std::vector<float> alone() {
    TestRank one(spec, service.url(), "alone");
    reset_to_initial(*one.session);
    GradientAccumulator& gradients = *one.session->gradients;
    std::vector<int64_t> everything;
    for (int64_t m = 0; m < spec.microbatches(); ++m) everything.push_back(m);
    const LocalStep found = gradients.accumulate(0, everything, exponents);
    auto packed_under = exponents;
    if (const auto chosen = gradients.rule().for_repack(exponents, found.maxima); !chosen.empty()) {
      gradients.repack(chosen);
      packed_under = chosen;
    }
    gradients.mean().unpack(packed_under, true);
    const float* const mean = one.session->model->gradients();
    return {mean, mean + one.session->model->table().total};
  }
  // `dealt` by rank.
  void scatter(const std::vector<std::vector<int64_t>>& dealt) {
    size_t rounds = 0;
    for (const auto& of_rank : dealt) rounds = std::max(rounds, of_rank.size());
    std::vector<std::vector<float>> maxima(kRanks);
    ranks.run([&](Communicator& ring) {
      const auto number = static_cast<size_t>(ring.rank());
      LostPeerNotice nobody_is_lost([](const CollectiveError& error) { ADD_FAILURE() << error.detail; });
      std::unique_ptr<CollectiveQueue> queue;
      if (std::get<1>(GetParam())) {
        queue = std::make_unique<CollectiveQueue>(ring, nobody_is_lost);
        queue->start();
      }
      auto found = all[number]->gradients.accumulate(ring, queue.get(), 0, dealt[number], rounds, exponents, [](auto) {});
      ASSERT_TRUE(found) << found.error().detail;
      if (queue) {
        ASSERT_TRUE(queue->finish());
      }
      maxima[number] = found->maxima;
    });
    for (size_t t = 0; t < maxima[0].size(); ++t) maxima[0][t] = std::max({maxima[0][t], maxima[1][t], maxima[2][t]});
    const auto chosen = all[0]->gradients.rule().for_repack(exponents, maxima[0]);
    ranks.run([&](Communicator& ring) {
      ScatteredGradients& gradients = all[static_cast<size_t>(ring.rank())]->gradients;
      if (!chosen.empty()) {
        ASSERT_TRUE(gradients.repack(ring, chosen));
      }
      gradients.unpack();
    });
    packed_again = !chosen.empty();
  }
  void expect_mean(const std::vector<float>& mean) {
    for (const auto& one : all) {
      const model::Gradient owned = one->gradients.mean();
      kernels::DeviceOps& ops = *one->rank.session->ops;
      int64_t at = 0;
      for (const auto& [first, count] : one->own) {
        std::vector<float> here(static_cast<size_t>(count));
        const size_t tensor = one->rank.session->model->table().cut({first, count}).front().tensor;
        if (owned.sums != nullptr) {
          ops.fixed_unpack(here.data(), owned.sums + at, count, owned.scales[tensor]);
        } else {
          std::copy_n(owned.floats + at, count, here.data());
        }
        EXPECT_EQ(here, std::vector<float>(mean.begin() + first, mean.begin() + first + count))
            << "elements " << first << " to " << first + count;
        at += count;
      }
    }
  }

  TestData data;
  FakeService service;
  rendezvous::JobSpec spec = tiny_spec(data);
  std::vector<std::unique_ptr<Scattering>> all;
  std::vector<int32_t> exponents;
  RingOfThreads ranks{kRanks};
  bool packed_again = false;
};

INSTANTIATE_TEST_SUITE_P(Wire, Scattered, testing::Combine(testing::Values("int32", "int16"), testing::Bool()),
                         [](const auto& chosen) {
                           return std::string(std::get<0>(chosen.param)) + (std::get<1>(chosen.param) ? "_beside" : "");
                         });

TEST_P(Scattered, HasTheMeanOfOneRankAlone) {
  const auto mean = alone();
  ASSERT_EQ(spec.microbatches(), 7);
  scatter({{0, 1, 6}, {2, 3}, {4, 5}});
  expect_mean(mean);
  scatter({{0}, {1, 2, 3, 4, 5, 6}, {}});  // two have none left, and pass on what the third brings
  expect_mean(mean);
}

TEST_P(Scattered, BringsTensorsThatOverflowAgain) {
  const auto& entries = all[0]->rank.session->model->table().entries;
  const int headroom = headroom_bits(spec.wire_dtype == "int16" ? 16 : 32);
  for (size_t t = 0; t < entries.size(); ++t)
    exponents[t] += headroom;  // which the first microbatch fits, and some others do not
  const auto mean = alone();
  scatter({{0, 1}, {2, 3, 5}, {4, 6}});
  EXPECT_TRUE(packed_again);
  expect_mean(mean);
}

}  // namespace
}  // namespace holdfast::worker
