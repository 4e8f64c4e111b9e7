// Weights of 4 bits as floats. Compiled once per instruction set (see fill.h), whose compiler makes these loops its own.
#include "kernels/int4.h"

#include "kernels/cpu/vector/fill.h"

namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA {
namespace {

void to_floats(float* out, const Int4Group* groups, int64_t count) {
  constexpr int64_t kHalf = kInt4Group / 2;
  for (int64_t g = 0; g < count; ++g, out += kInt4Group) {
    const float scale = __builtin_bit_cast(float, static_cast<uint32_t>(groups[g].scale) << 16U);
    for (int64_t j = 0; j < kHalf; ++j) out[j] = static_cast<float>((groups[g].pairs[j] & 15) - 8) * scale;
    for (int64_t j = 0; j < kHalf; ++j) out[j + kHalf] = static_cast<float>((groups[g].pairs[j] >> 4) - 8) * scale;
  }
}

}  // namespace

void fill_int4(VectorTable& table) {
  table.int4_to_floats = to_floats;
}

}  // namespace holdfast::kernels::cpu::HOLDFAST_VECTOR_ISA
