// A new random seed for every run. A failure prints it, and HOLDFAST_TEST_SEED=n repeats the run with seed n.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace holdfast::storage::testing {

inline uint32_t chosen_seed() {
  const char* given = std::getenv("HOLDFAST_TEST_SEED");  // NOLINT(concurrency-mt-unsafe): before any thread
  return given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

// The line about the seed, for a SCOPED_TRACE.
inline std::string how_to_repeat(uint32_t seed) {
  return "repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed);
}

}  // namespace holdfast::storage::testing
