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
  std::span<const int32_t> ids() const { return ids_; }        // ascending
  std::span<const int32_t> places() const { return places_; }  // of each token: where it is in ids()

 private:
  std::vector<int32_t> ids_, places_;
};

}  // namespace holdfast::model
