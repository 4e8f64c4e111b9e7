// Construction, and the ops that are one vector loop over a range.
#include "kernels/cpu/cpu_ops.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace holdfast::kernels {
namespace cpu {
namespace {

const ElementLoops& loops_of(const VectorTable& vectors, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return vectors.float32;
    case DType::kBFloat16:
      return vectors.bfloat16;
    case DType::kFloat16:
      break;
  }
  return vectors.float16;
}

}  // namespace

CpuOps::CpuOps(DType activations, int threads, Isa isa)
    : activations_(activations),
      isa_(isa),
      native_bfloat16_(multiplies_bfloat16(isa) && activations == DType::kBFloat16),
      element_size_(dtype_size(activations)),
      operand_size_(native_bfloat16_ ? 2 : 4),
      vectors_(isa == Isa::kAvx2 ? avx2::table() : avx512::table()),
      elements_(loops_of(vectors_, activations)),
      operands_(native_bfloat16_ ? vectors_.bfloat16 : vectors_.float32),
      team_(threads),
      products_(threads, isa),
      per_thread_(static_cast<size_t>(threads)) {}

DeviceInfo CpuOps::info() const {
  return {"cpu", host_cpu_model(), numerics_name(isa_), host_memory_bytes(), team_.threads()};
}

const void* CpuOps::operands(const Act* x, int64_t count, Scratch& scratch) {
  if (!widens()) return x;
  float* wide = scratch.floats(count);
  for_each_block(count, [&](int64_t begin, int64_t size) { elements_.to_float(wide + begin, at(x, begin), size); });
  return wide;
}

Product CpuOps::product(int64_t m, int64_t k, int64_t n, Layout a, Layout b, int64_t c_width, bool add) {
  return products_.prepare({m, k, n, a, b, c_width, add, native_bfloat16_});
}

void CpuOps::zero(void* memory, size_t bytes) {
  const Cut blocks = Cut::of(4 * kBlock, static_cast<int64_t>(bytes));
  team_.for_each(blocks.count, [&](int64_t i, int) {
    std::memset(static_cast<char*>(memory) + blocks.begin(i), 0, static_cast<size_t>(blocks.size(i)));
  });
}

void CpuOps::cast(Act* out, const float* in, int64_t count) {
  for_each_block(count, [&](int64_t begin, int64_t size) { elements_.from_float(at(out, begin), in + begin, size); });
}

void CpuOps::adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) {
  for_each_block(count, [&](int64_t begin, int64_t size) {
    vectors_.floats.adamw(parameters + begin, m + begin, v + begin, gradient + begin, size, step);
  });
}

void CpuOps::nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) {
  for_each_block(count, [&](int64_t begin, int64_t size) {
    vectors_.floats.nesterov(parameters + begin, momentum + begin, gradient + begin, size, step);
  });
}

void CpuOps::subtract(float* out, const float* a, const float* b, int64_t count) {
  for_each_block(count,
                 [&](int64_t begin, int64_t size) { vectors_.floats.subtract(out + begin, a + begin, b + begin, size); });
}

void CpuOps::scale(float* out, const float* x, int64_t count, float factor) {
  for_each_block(count, [&](int64_t begin, int64_t size) { vectors_.floats.scale(out + begin, x + begin, size, factor); });
}

// The blocks of all ranges are one list, so that threads share the work however long each range is. A block is of one range.
void CpuOps::sums_of_squares(double* host_sums, const Floats* of, size_t how_many) {
  struct Block {
    Floats range;
    double sum;
  };
  int64_t count = 0;
  for (size_t i = 0; i < how_many; ++i) count += Cut::of(kBlock, of[i].count).count;
  auto* const blocks = static_cast<Block*>(statistics_.reserve(static_cast<size_t>(count) * sizeof(Block)));
  Block* next = blocks;
  for (size_t i = 0; i < how_many; ++i) {
    const Cut cut = Cut::of(kBlock, of[i].count);
    for (int64_t block = 0; block < cut.count; ++block) *next++ = {{of[i].x + cut.begin(block), cut.size(block)}, 0};
  }
  team_.for_each(
      count, [&](int64_t i, int) { blocks[i].sum = vectors_.floats.sum_of_squares(blocks[i].range.x, blocks[i].range.count); });
  next = blocks;
  for (size_t i = 0; i < how_many; ++i) {
    double total = 0;
    for (int64_t block = Cut::of(kBlock, of[i].count).count; block > 0; --block) total += (next++)->sum;
    host_sums[i] = total;
  }
}

double CpuOps::sum(const float* x, int64_t count) {
  const Cut blocks = Cut::of(kBlock, count);
  auto* partials = static_cast<double*>(statistics_.reserve(static_cast<size_t>(blocks.count) * sizeof(double)));
  team_.for_each(blocks.count, [&](int64_t i, int) { partials[i] = vectors_.floats.sum(x + blocks.begin(i), blocks.size(i)); });
  double total = 0;
  for (int64_t i = 0; i < blocks.count; ++i) total += partials[i];
  return total;
}

float CpuOps::abs_max(const float* x, int64_t count) {
  const Cut blocks = Cut::of(kBlock, count);
  float* partials = statistics_.floats(blocks.count);
  team_.for_each(blocks.count,
                 [&](int64_t i, int) { partials[i] = vectors_.floats.abs_max(x + blocks.begin(i), blocks.size(i)); });
  return vectors_.floats.abs_max(partials, blocks.count);
}

void CpuOps::fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) {
  for_each_block(count, [&](int64_t begin, int64_t size) {
    vectors_.floats.fixed_accumulate(sums + begin, x + begin, size, exponent, first);
  });
}

void CpuOps::fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) {
  for_each_block(count, [&](int64_t begin, int64_t size) {
    vectors_.floats.fixed_accumulate_int16(sums + begin, x + begin, size, exponent, first);
  });
}

void CpuOps::fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) {
  for_each_block(count,
                 [&](int64_t begin, int64_t size) { vectors_.floats.fixed_unpack(x + begin, sums + begin, size, scale); });
}

void CpuOps::fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) {
  for_each_block(
      count, [&](int64_t begin, int64_t size) { vectors_.floats.fixed_unpack_int16(x + begin, sums + begin, size, scale); });
}

void CpuOps::float_accumulate(float* sums, const float* x, int64_t count, bool first) {
  for_each_block(count, [&](int64_t begin, int64_t size) {
    if (first) {
      std::memcpy(sums + begin, x + begin, static_cast<size_t>(size) * sizeof(float));
    } else {
      vectors_.floats.add(sums + begin, sums + begin, x + begin, size);
    }
  });
}

}  // namespace cpu

std::unique_ptr<DeviceOps> make_cpu_ops(DType activations, int threads) {
  if (threads < 1) throw std::invalid_argument("threads is " + std::to_string(threads) + ": expected at least 1");
  return std::make_unique<cpu::CpuOps>(activations, threads, cpu::isa_of_environment());
}

}  // namespace holdfast::kernels
