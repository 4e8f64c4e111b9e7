// Random inputs from a new seed in every run. A failure prints the seed, and HOLDFAST_TEST_SEED=n repeats the run with seed n.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace holdfast::kernels::testing {

class RandomInputs {
 public:
  RandomInputs();
  explicit RandomInputs(uint64_t seed) : seed_(seed), engine_(seed) {}

  std::string how_to_repeat() const { return "repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed_); }
  std::vector<float> normal(int64_t count, float deviation = 1.0f);
  std::vector<double> normal_doubles(int64_t count);
  std::vector<int32_t> below(int32_t limit, int64_t count);

 private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace holdfast::kernels::testing
