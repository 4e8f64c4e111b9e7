// Products of rows of int8 by AVX512_VNNI's dot products of four, of numbers with and without a sign: the rows of a have 128
// added, which is taken away from the sums. Compiled for that instruction set alone.
#include "kernels/cpu/vector/int8_blocks.h"
#include "kernels/cpu/vector/lanes.h"

namespace holdfast::kernels::cpu {
namespace {

struct DotsOfFour {
  using Sum = __m512i;
  using Operand = __m512i;
  static constexpr int64_t kRows = 4, kBytes = 64;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Operand load_w(const int8_t* at) { return _mm512_loadu_si512(at); }
  static Operand load_a(const int8_t* at) { return _mm512_xor_si512(_mm512_loadu_si512(at), _mm512_set1_epi8(-128)); }
  static Sum add(Sum sum, Operand a, Operand w) { return _mm512_dpbusd_epi32(sum, a, w); }
  static int32_t total(Sum sum) { return _mm512_reduce_add_epi32(sum); }
  static int32_t beyond(int32_t sum_of_w) { return 128 * sum_of_w; }
};

}  // namespace

void multiply_int8_vnni(int32_t* c, int64_t c_width, const int8_t* a, int64_t rows, const int8_t* w, const int32_t* sums,
                        int64_t columns, int64_t depth) {
  Int8Blocks<DotsOfFour>::multiply(c, c_width, a, rows, w, sums, columns, depth);
}

}  // namespace holdfast::kernels::cpu
