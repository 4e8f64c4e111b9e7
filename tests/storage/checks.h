// Checks of a store, shared by the tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/storage/states.h"

namespace holdfast::storage::testing {

template <typename T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().message;
}

// The checkpoint at `step` is listed, verifies, and holds `state`.
inline ::testing::AssertionResult holds(ObjectStore& store, int64_t step, const State& state) {
  const auto steps = list_checkpoints(store);
  if (!steps) return ok(steps);
  if (std::ranges::find(*steps, step) == steps->end()) return ::testing::AssertionFailure() << "no checkpoint at step " << step;
  if (const auto verified = verify_checkpoint(store, step); !verified) return ok(verified);
  State found = state.blank();
  const auto writable = found.writable();
  if (const auto read = read_checkpoint(store, step, writable); !read) return ok(read);
  if (!(found == state)) return ::testing::AssertionFailure() << "checkpoint at step " << step << " holds other bytes";
  return ::testing::AssertionSuccess();
}

inline bool is_listed(ObjectStore& store, int64_t step) {
  const auto steps = list_checkpoints(store);
  EXPECT_TRUE(ok(steps));
  return steps && std::ranges::find(*steps, step) != steps->end();
}

}  // namespace holdfast::storage::testing
