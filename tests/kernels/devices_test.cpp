// Making op sets: their memory, and the refusals with their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/cpu/isa.h"
#include "kernels/ops.h"

namespace holdfast::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Devices, MemoryIsAlignedAndCopiesArriveWhole) {
  for (auto make : {+[] { return make_ref_ops(DType::kFloat32); }, +[] { return make_cpu_ops(DType::kFloat32, 2); }}) {
    auto ops = make();
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5} << 20}) {
      void* memory = ops->allocate(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      std::vector<char> there(bytes, 'x'), back(bytes, 'y');
      ops->copy_to_device(memory, there.data(), bytes);
      ops->copy_to_host(back.data(), memory, bytes);
      EXPECT_EQ(back, there);
      ops->zero(memory, bytes);
      ops->synchronize();
      ops->copy_to_host(back.data(), memory, bytes);
      EXPECT_EQ(back, std::vector<char>(bytes, 0));
      ops->release(memory);
    }
  }
}

TEST(Devices, MoreMemoryThanThereIsIsRefusedWithItsSize) {
  for (size_t bytes : {size_t{1} << 50, ~size_t{0}, ~size_t{0} - 100}) {
    EXPECT_THAT([&] { make_ref_ops(DType::kFloat32)->allocate(bytes); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(std::to_string(bytes)), HasSubstr("batch_size"))));
  }
}

TEST(Devices, TheCpuHasEveryDtypeThatRefHas) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    EXPECT_EQ(make_cpu_ops(dtype, 1)->activation_dtype(), dtype);
    EXPECT_EQ(make_ref_ops(dtype)->activation_dtype(), dtype);
  }
}

TEST(Devices, ZeroThreadsAreRefused) {
  EXPECT_THAT([] { make_cpu_ops(DType::kFloat32, 0); }, ThrowsMessage<std::invalid_argument>(HasSubstr("threads is 0")));
}

TEST(Devices, AnUnknownInstructionSetIsNamed) {
  EXPECT_THAT([] { cpu::choose_isa("sse9"); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("HOLDFAST_CPU_ISA=sse9"), HasSubstr("avx2, avx512, avx512_bf16, amx"))));
}

TEST(Devices, AnInstructionSetBeyondTheCpuIsNamed) {
  EXPECT_EQ(cpu::choose_isa(nullptr), cpu::best_isa());
  EXPECT_EQ(cpu::choose_isa(""), cpu::best_isa());
  EXPECT_EQ(cpu::choose_isa("avx2"), cpu::Isa::kAvx2);
  if (cpu::has(cpu::Isa::kAmx)) GTEST_SKIP() << "this CPU has them all";
  EXPECT_THAT([] { cpu::choose_isa("amx"); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("HOLDFAST_CPU_ISA=amx"), HasSubstr("this CPU has avx2"))));
}

}  // namespace
}  // namespace holdfast::kernels
