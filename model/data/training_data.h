// The tokens that microbatch m of step s trains on: a pure function of (seed, s, m) and the sources, at any world size.
//
// Row r of a microbatch is sequence q = (s * microbatches + m) * batch_size + r. The mixture's order (mixture_order.h) gives q
// to a source, as its sequence n: place n % windows of pass n / windows in that source's own order (data_order.h). So each
// window of a source comes once per pass of that source, and a global batch may straddle two passes. With one source n is q.
//
// Tokens may still be on their way: `fill` has each row's waited for, and `windows_of` says beforehand which will be.
// Thread: any; the sources' arrivals say theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/data/data_order.h"
#include "model/data/mixture_order.h"

namespace holdfast::model {

// Tokens of a source that come while the job trains.
class DataArrival {
 public:
  virtual ~DataArrival() = default;
  // Returns when these tokens can be read. May throw model::Interrupted.
  virtual void wait_for(size_t first_token, size_t count) = 0;
};

// The memory of the tokens, and `arrival`, outlive what is made from it.
struct TrainingSource {
  std::span<const uint16_t> tokens;  // more than block_size
  int64_t share = 1;                 // of the sum of all shares
  DataArrival* arrival = nullptr;    // null: all tokens are there
};

struct TrainingWindow {
  size_t source;
  size_t first_token;  // of block_size + 1
  bool operator==(const TrainingWindow&) const = default;
};

class TrainingData {
 public:
  TrainingData() = default;  // of nothing, to be assigned to
  TrainingData(std::vector<TrainingSource> sources, uint64_t seed, const BatchShape& shape);

  const BatchShape& shape() const { return shape_; }
  // By row.
  std::vector<TrainingWindow> windows_of(int64_t step, int64_t microbatch) const;
  // inputs and targets: (batch_size, block_size) each; targets are inputs shifted by one.
  void fill(int64_t step, int64_t microbatch, std::span<int32_t> inputs, std::span<int32_t> targets) const;

 private:
  BatchShape shape_;
  std::vector<TrainingSource> sources_;
  MixtureOrder mixture_;
  std::vector<DataOrder> orders_;  // by source
};

}  // namespace holdfast::model
