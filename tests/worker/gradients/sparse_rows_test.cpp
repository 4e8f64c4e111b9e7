// Rows of the embedding that are kept apart: moved to a rank's own sums or gathered from all, it comes to the same.
#include "worker/gradients/sparse_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tests/worker/collectives/ring_of_threads.h"

namespace holdfast::worker {
namespace {

constexpr int64_t V = 7, C = 3, kTokens = 4;
constexpr int32_t kExponent = 4;  // of exact types

// Of each rank's last microbatch: the second has none.
const std::vector<std::vector<int32_t>> kIds = {{0, 2, 6}, {}, {2, 3, 5, 6}};

class Rows : public ::testing::TestWithParam<WireType> {
 protected:
  // Quarters: whole numbers under the exponent, and exact as floats.
  static std::vector<float> values_of(size_t rank) {
    std::vector<float> values;
    for (size_t i = 0; i < kIds[rank].size() * C; ++i)
      values.push_back(0.25F * static_cast<float>(i + 1) * static_cast<float>(rank + 1));
    return values;
  }
  static bool exact() { return is_exact(GetParam()); }
  // The number that a sum holds for such a value.
  static float packed(float value) { return exact() ? value * static_cast<float>(1 << kExponent) : value; }

  std::unique_ptr<SparseRows> rows_of(size_t rank) {
    const auto values = values_of(rank);
    auto rows = std::make_unique<SparseRows>(*ops, GetParam(), kTokens, V, C);
    rows->pack({.ids = kIds[rank], .rows = values.data()}, kExponent);
    rows->begin_fetch();
    return rows;
  }
  // A reduced gradient before the rows come, as the memory that it has in the model's buffer.
  static std::vector<float> reduced() {
    std::vector<float> result(V * C);
    for (size_t i = 0; i < result.size(); ++i) {
      const int32_t value = static_cast<int32_t>(i) + 40000;  // beyond 16 bits
      result[i] = exact() ? std::bit_cast<float>(value) : static_cast<float>(value);
    }
    return result;
  }
  static std::vector<float> values_in(const std::vector<float>& result) {
    if (!exact()) return result;
    std::vector<float> values;
    for (const float integer : result) values.push_back(static_cast<float>(std::bit_cast<int32_t>(integer)));
    return values;
  }
  static std::vector<float> expected() {
    std::vector<float> sum;
    for (size_t i = 0; i < static_cast<size_t>(V * C); ++i) sum.push_back(static_cast<float>(i) + 40000);
    for (size_t rank = 0; rank < kIds.size(); ++rank) {
      const auto values = values_of(rank);
      for (size_t i = 0; i < values.size(); ++i) sum[static_cast<size_t>(kIds[rank][i / C]) * C + i % C] += packed(values[i]);
    }
    return sum;
  }

  std::unique_ptr<kernels::DeviceOps> ops = kernels::make_ref_ops(kernels::DType::kFloat32);
};

INSTANTIATE_TEST_SUITE_P(Wire, Rows, testing::Values(WireType::kInt32, WireType::kInt16, WireType::kFloat32, WireType::kInt8));

TEST_P(Rows, OfAllRanksAreAddedToWhatWasReduced) {
  RingOfThreads ranks(static_cast<int>(kIds.size()));
  std::vector<std::unique_ptr<SparseRows>> all;
  for (size_t rank = 0; rank < kIds.size(); ++rank) all.push_back(rows_of(rank));
  ranks.run([&](Communicator& ring) {
    SparseRows& rows = *all[static_cast<size_t>(ring.rank())];
    for (int call = 0; call < 2; ++call) ASSERT_TRUE(rows.gather(ring)) << "they are only read; call " << call;
    auto result = reduced();
    rows.add_gathered(result.data());
    EXPECT_EQ(values_in(result), expected());
    rows.add_gathered(result.data());
    EXPECT_EQ(values_in(result), expected()) << "they are added once";
  });
}

// The room for one packed row of 16 bits is not that for one sum.
TEST_P(Rows, OfASingleTokenAreAdded) {
  const auto own = values_of(0);
  RingOfThreads ranks(2);
  ranks.run([&](Communicator& ring) {
    SparseRows rows(*ops, GetParam(), 1, V, C);
    const std::vector<int32_t> ids(ring.rank() == 0 ? 1 : 0, 5);
    rows.pack({.ids = ids, .rows = own.data()}, kExponent);
    rows.begin_fetch();
    ASSERT_TRUE(rows.gather(ring));
    auto result = reduced();
    const auto before = values_in(result);
    rows.add_gathered(result.data());
    for (size_t c = 0; c < C; ++c) EXPECT_EQ(values_in(result)[5 * C + c], before[5 * C + c] + packed(own[c]));
  });
}

TEST_P(Rows, AreMovedToTheSumsOnce) {
  const auto owned = rows_of(2);
  SparseRows& rows = *owned;
  std::vector<std::byte> sums(static_cast<size_t>(V * C) * sum_bytes(GetParam()));
  rows.move_to(sums.data());
  const auto once = sums;
  EXPECT_TRUE(std::ranges::any_of(once, [](std::byte byte) { return byte != std::byte{0}; }));
  rows.move_to(sums.data());
  EXPECT_EQ(sums, once);
  RingOfThreads alone(1);
  alone.run([&](Communicator& ring) {
    auto result = reduced();
    ASSERT_TRUE(rows.gather(ring));
    rows.add_gathered(result.data());
    EXPECT_EQ(result, reduced()) << "nothing is there any more";
  });
}

TEST_P(Rows, AreStillThereAfterACallThatFailed) {
  RingOfThreads ranks(2);
  const auto owned = rows_of(0);
  SparseRows& rows = *owned;
  ranks.run([&](Communicator& ring) {
    if (ring.rank() == 1) {
      ring.abort("as if it were gone");
      EXPECT_FALSE(ring.all_gather({}));
    } else {
      EXPECT_FALSE(rows.gather(ring));
    }
  });
  std::vector<std::byte> sums(static_cast<size_t>(V * C) * sum_bytes(GetParam())), expected_sums = sums;
  rows.move_to(sums.data());
  rows_of(0)->move_to(expected_sums.data());
  EXPECT_EQ(sums, expected_sums);
}

TEST_P(Rows, ThatAreNoneOfTheEmbeddingsAreRefused) {
  const size_t row_bytes = sizeof(int32_t) + C * sum_bytes(GetParam());
  const auto block = [&](const std::vector<uint32_t>& head, size_t bytes) {
    std::vector<std::byte> made(bytes);
    std::ranges::copy(std::as_bytes(std::span(head)), made.begin());
    return made;
  };
  const std::vector<std::pair<std::vector<std::byte>, std::string>> wrong = {
      {block({}, 3), "in 3 bytes"},
      {block({2, 1, 2}, 4 + row_bytes), "no whole number of rows"},
      {block({2, 3, 3}, 4 + 2 * row_bytes), "token 3 after 3"},
      {block({1, 7}, 4 + row_bytes), "ids below 7"},
      {block({1, 0xFFFFFFFF}, 4 + row_bytes), "token -1"},
  };
  const auto owned = rows_of(0);
  SparseRows& rows = *owned;
  for (const auto& each : wrong) {
    const std::string& reason = each.second;
    RingOfThreads ranks(2);
    ranks.run([&](Communicator& ring) {
      if (ring.rank() == 1) {
        EXPECT_TRUE(ring.all_gather(each.first));
        return;
      }
      const auto gathered = rows.gather(ring);
      ASSERT_FALSE(gathered) << reason;
      EXPECT_EQ(gathered.error().suspect_rank, 1);
      EXPECT_NE(gathered.error().detail.find(reason), std::string::npos) << gathered.error().detail;
    });
  }
}

}  // namespace
}  // namespace holdfast::worker
