// Seeds and random numbers of random_inputs.h.
#include "tests/kernels/random_inputs.h"

#include <cstdlib>

namespace holdfast::kernels::testing {
namespace {

uint64_t chosen_seed() {
  const char* given = std::getenv("HOLDFAST_TEST_SEED");  // NOLINT(concurrency-mt-unsafe): one thread
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

}  // namespace

RandomInputs::RandomInputs() : RandomInputs(chosen_seed()) {}

std::vector<float> RandomInputs::normal(int64_t count, float deviation) {
  std::normal_distribution<float> draw(0.0f, deviation);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = draw(engine_);
  return x;
}

std::vector<double> RandomInputs::normal_doubles(int64_t count) {
  std::normal_distribution<double> draw;
  std::vector<double> x(static_cast<size_t>(count));
  for (double& value : x) value = draw(engine_);
  return x;
}

std::vector<int32_t> RandomInputs::below(int32_t limit, int64_t count) {
  std::uniform_int_distribution<int32_t> draw(0, limit - 1);
  std::vector<int32_t> x(static_cast<size_t>(count));
  for (int32_t& value : x) value = draw(engine_);
  return x;
}

}  // namespace holdfast::kernels::testing
