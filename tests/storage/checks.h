// Checks of a store, shared by the tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "storage/checkpoint_parts.h"
#include "storage/shards/layout.h"
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

// As several writers are given it.
inline Manifest manifest_of(int64_t step, const State& state) {
  Manifest manifest = manifest_at(step);
  for (const ConstTensor& tensor : state.tensors())
    manifest.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.bytes.size())});
  manifest.state_hash = state_hash(state.tensors());
  return manifest;
}

// All pieces of a state, which outlives them.
inline std::vector<PieceBytes> pieces_of(const State& state) {
  const auto tensors = state.tensors();
  const auto infos = manifest_of(0, state).tensors;
  const PieceTable table(infos);
  std::vector<PieceBytes> pieces;
  for (size_t i = 0; i < table.size(); ++i) {
    const TensorRange& at = table[i];
    pieces.push_back({i, tensors[at.tensor].bytes.subspan(static_cast<size_t>(at.offset), static_cast<size_t>(at.bytes))});
  }
  return pieces;
}

}  // namespace holdfast::storage::testing
