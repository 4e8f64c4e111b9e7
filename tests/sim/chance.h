// The only source of randomness of a simulated run: the same seed draws the same numbers on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace holdfast::sim {

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}

  // 0 to n - 1. Not std::uniform_int_distribution: that may differ between libraries.
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  bool percent(int64_t p) { return below(100) < p; }
  template <typename T>
  const T& of(const std::vector<T>& things) {
    return things[static_cast<size_t>(below(static_cast<int64_t>(things.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace holdfast::sim
