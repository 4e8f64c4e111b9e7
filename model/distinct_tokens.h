// The distinct tokens of a microbatch: the rows of the embedding that its encoder reads, and gives a gradient to.
//
// Promises: a function of the tokens alone; no allocation after the constructor, for as many tokens as it was made for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace holdfast::model {

class DistinctTokens {
 public:
  explicit DistinctTokens(size_t tokens);

  void find(std::span<const int32_t> tokens);
  std::span<const int32_t> ids() const { return std::span(runs_).first(distinct_); }  // ascending
  // The runs of kernels::TokenRuns, for one copy to the device: ids (R), starts (R + 1), positions (N).
  std::span<const int32_t> runs() const { return runs_; }

 private:
  std::vector<uint64_t> sorted_;  // token and position, in one number
  std::vector<int32_t> runs_;
  size_t distinct_ = 0;
};

}  // namespace holdfast::model
