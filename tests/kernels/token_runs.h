// The runs of equal tokens (kernels::TokenRuns) of a test's tokens, in host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/ops.h"

namespace holdfast::kernels::testing {

struct RunsOfTokens {
  std::vector<int32_t> ids, starts, positions;

  explicit RunsOfTokens(const std::vector<int32_t>& tokens) : positions(tokens.size()) {
    std::iota(positions.begin(), positions.end(), 0);
    std::ranges::stable_sort(positions, {}, [&](int32_t n) { return tokens[static_cast<size_t>(n)]; });
    for (size_t i = 0; i < positions.size(); ++i) {
      const int32_t token = tokens[static_cast<size_t>(positions[i])];
      if (!ids.empty() && ids.back() == token) continue;
      ids.push_back(token);
      starts.push_back(static_cast<int32_t>(i));
    }
    starts.push_back(static_cast<int32_t>(positions.size()));
  }
  int64_t R() const { return static_cast<int64_t>(ids.size()); }
  TokenRuns on_host() const { return {ids.data(), starts.data(), positions.data(), R()}; }
};

}  // namespace holdfast::kernels::testing
