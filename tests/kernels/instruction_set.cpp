// The choice of instruction set for programs that ctest runs once for each set: HOLDFAST_TEST_ISA=avx2|avx512|avx512_bf16. All
// tests are skipped if the machine lacks the set, or if it is the machine's best set, which the plain run tests already.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/cpu/isa.h"

namespace holdfast::kernels {
namespace {

class InstructionSet : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* wanted = std::getenv("HOLDFAST_TEST_ISA");  // NOLINT(concurrency-mt-unsafe): before any thread
    if (wanted == nullptr) return;
    const char* best = cpu::isa_name(cpu::best_isa());
    if (std::string(wanted) == best) GTEST_SKIP() << "not run again: this machine takes " << best << " by itself";
    try {
      cpu::choose_isa(wanted);
    } catch (const std::runtime_error& e) {
      GTEST_SKIP() << "not run here: this machine lacks " << wanted << " (" << e.what() << ")";
    }
    ::setenv("HOLDFAST_CPU_ISA", wanted, 1);  // NOLINT(concurrency-mt-unsafe)
  }
};

const auto* const registered = ::testing::AddGlobalTestEnvironment(new InstructionSet);  // gtest deletes it

}  // namespace
}  // namespace holdfast::kernels
