// The products of every instruction set that this CPU has, against sums in double: every layout, odd sizes and every type of
// operands. AMX's loops also run without its units.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu/products.h"
#include "kernels/dtype.h"
#include "kernels/int4.h"
#include "tests/kernels/emulated_tiles.h"
#include "tests/kernels/random_inputs.h"

namespace holdfast::kernels::cpu {
namespace {

using testing::RandomInputs;

struct Subject {
  const char* name;
  Isa needs;  // the instruction set that the CPU must have
  bool bfloat16;
  // The error allowed in an element's sum, in roundings of float32. Plain sums of these lengths have errors of up to six,
  // and above that (6.4) once in a thousand runs, for the inputs are others each time: nine is out of their reach. The
  // matrix units round less often.
  int roundings;
  const ProductLoops& (*loops)(bool bfloat16);
};
template <Isa isa>
constexpr Subject real(int roundings) {
  return {"", isa, isa == Isa::kAvx512Bf16 || isa == Isa::kAmx, roundings,
          [](bool bfloat16) -> const ProductLoops& { return product_loops(isa, bfloat16); }};
}
const Subject kEmulated{"amx_emulated", Isa::kAvx512, true, 9,
                        [](bool) -> const ProductLoops& { return testing::emulated_tile_loops(); }};

std::string name_of(const Subject& subject) {
  return *subject.name == '\0' ? isa_name(subject.needs) : subject.name;
}

ProductShape shape_of(int64_t m, int64_t k, int64_t n, bool a_transposed, bool b_transposed, bool add, bool bfloat16) {
  return {m, k, n, a_transposed ? transposed(m) : by_rows(k), b_transposed ? transposed(k) : by_rows(n), n, add, bfloat16};
}

class ProductLoopsOf : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    if (!has(GetParam().needs)) GTEST_SKIP() << "not run here: this machine lacks " << isa_name(GetParam().needs);
  }
  static void multiply(const ProductShape& shape, const void* a, const void* b, float* c) {
    const ProductLoops& loops = GetParam().loops(shape.bfloat16);
    Scratch packed, scratch;
    loops.pack(shape, b, {0, shape.n}, packed.reserve(loops.packed_bytes(shape)));
    loops.run(shape, a, packed.reserve(0), c, scratch.reserve(loops.scratch_bytes(shape)));
  }
  // Shapes of operands by rows, in every type that the loops have, of products that are stored and that are added.
  static std::vector<ProductShape> all_kinds(int64_t m, int64_t k, int64_t n) {
    std::vector<ProductShape> kinds;
    for (const bool bfloat16 : {false, true}) {
      if (bfloat16 && !GetParam().bfloat16) continue;
      for (const bool add : {false, true}) kinds.push_back(shape_of(m, k, n, false, false, add, bfloat16));
    }
    return kinds;
  }
  static std::string kind_of(const ProductShape& shape) {
    return std::string(shape.bfloat16 ? ", bfloat16" : ", float32") + (shape.add ? ", added" : "");
  }
  // The product of a and b in the type of the shape's operands.
  static void multiply_rounded(const ProductShape& shape, const std::vector<float>& a, const std::vector<float>& b, float* c) {
    if (!shape.bfloat16) return multiply(shape, a.data(), b.data(), c);
    const std::vector<BFloat16> narrow_a(a.begin(), a.end()), narrow_b(b.begin(), b.end());
    multiply(shape, narrow_a.data(), narrow_b.data(), c);
  }
  static void expect_close(const ProductShape& shape, RandomInputs& random);
};

// Judges the error of each element in units of the sum of the magnitudes of its products, as is usual for float32 sums.
void ProductLoopsOf::expect_close(const ProductShape& shape, RandomInputs& random) {
  std::vector<float> a = random.normal(shape.m * shape.k), b = random.normal(shape.k * shape.n);
  std::vector<uint16_t> narrow_a(a.size()), narrow_b(b.size());
  if (shape.bfloat16) {
    const auto narrow = [](std::vector<float>& x, std::vector<uint16_t>& bits) {
      for (size_t i = 0; i < x.size(); ++i) {
        bits[i] = BFloat16(x[i]).bits;
        x[i] = BFloat16(x[i]);
      }
    };
    narrow(a, narrow_a);
    narrow(b, narrow_b);
  }
  std::vector<float> c(static_cast<size_t>(shape.m * shape.n), 0.5F);
  multiply(shape, shape.bfloat16 ? static_cast<const void*>(narrow_a.data()) : a.data(),
           shape.bfloat16 ? static_cast<const void*>(narrow_b.data()) : b.data(), c.data());
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      double expected = shape.add ? 0.5 : 0.0, magnitude = expected;
      for (int64_t k = 0; k < shape.k; ++k) {
        const double product = static_cast<double>(a[static_cast<size_t>(i * shape.a.row + k * shape.a.column)]) *
                               static_cast<double>(b[static_cast<size_t>(k * shape.b.row + j * shape.b.column)]);
        expected += product;
        magnitude += std::fabs(product);
      }
      ASSERT_NEAR(c[static_cast<size_t>(i * shape.n + j)], expected, GetParam().roundings * 0x1p-24 * magnitude)
          << "element " << i << ", " << j << " of " << shape.m << " x " << shape.k << " x " << shape.n << ", layouts "
          << shape.a.row << " " << shape.b.row << (shape.bfloat16 ? ", bfloat16" : ", float32");
    }
  }
}

TEST_P(ProductLoopsOf, AreAsExactAsFloat32SumsInEveryLayoutAndAtEverySize) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 1, 1},
                                {5, 7, 3},
                                {40, 70, 50},
                                {33, 129, 17},
                                {64, 600, 40},
                                {32, 1100, 33},
                                {101, 259, 70}}) {
    for (int choice = 0; choice < (GetParam().bfloat16 ? 16 : 8); ++choice) {
      expect_close(shape_of(m, k, n, (choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0, (choice & 8) != 0), random);
    }
  }
}

TEST_P(ProductLoopsOf, PackPieceByPieceAsAltogether) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const bool bfloat16 : {false, true}) {
    if (bfloat16 && !GetParam().bfloat16) continue;
    const ProductLoops& loops = GetParam().loops(bfloat16);
    for (const bool transposed_b : {false, true}) {
      for (const auto& [k, n] : {std::array<int64_t, 2>{600, 192}, {259, 130}, {1100, 33}, {70, 64}}) {
        const ProductShape shape = shape_of(1, k, n, false, transposed_b, false, bfloat16);
        const std::vector<float> b = random.normal(k * n);
        Scratch whole, pieces;
        const size_t bytes = loops.packed_bytes(shape);
        void *const at_once = whole.reserve(bytes), *const by_pieces = pieces.reserve(bytes);
        std::memset(at_once, 0x5a, bytes);  // zeros beyond the edges are written, too
        std::memset(by_pieces, 0x5a, bytes);
        loops.pack(shape, b.data(), {.first = 0, .count = n}, at_once);
        for (int64_t first = (n - 1) / kPackedColumns * kPackedColumns; first >= 0; first -= kPackedColumns)
          for (const int64_t part : {1, 2, 0})
            loops.pack(shape, b.data(), {first, std::min(kPackedColumns, n - first), part, 3}, by_pieces);
        EXPECT_EQ(std::memcmp(at_once, by_pieces, bytes), 0) << k << " x " << n << (bfloat16 ? ", bfloat16" : "");
      }
    }
  }
}

TEST_P(ProductLoopsOf, PackSquaresThatHangOnTheirElementsAlone) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const bool bfloat16 : {false, true}) {
    if (bfloat16 && !GetParam().bfloat16) continue;
    const ProductLoops& loops = GetParam().loops(bfloat16);
    const size_t element = bfloat16 ? sizeof(uint16_t) : sizeof(float);
    for (const auto& [k, n] : {std::array<int64_t, 2>{70, 50}, {600, 40}, {1100, 33}, {1, 1}}) {
      const ProductShape shape = shape_of(1, k, n, false, true, false, bfloat16);
      const std::vector<float> b = random.normal(k * n);  // of which 16-bit elements take half, whatever they are
      Scratch whole, part;
      loops.pack(shape, b.data(), {.first = 0, .count = n}, whole.reserve(loops.packed_bytes(shape)));
      const SquareForm form = loops.square(shape);
      for (int64_t column = 0; column < n; column += form.lines) {
        for (int64_t first = 0; first < k; first += form.depth) {
          ProductShape alone = shape;
          alone.k = std::min(form.depth, k - first);
          alone.n = std::min(form.lines, n - column);
          const auto offset = static_cast<size_t>(column * shape.b.column + first * shape.b.row);
          loops.pack(alone, reinterpret_cast<const std::byte*>(b.data()) + offset * element, {0, alone.n},
                     part.reserve(loops.packed_bytes(alone)));
          EXPECT_EQ(std::memcmp(static_cast<std::byte*>(whole.reserve(0)) + loops.square_at(shape, column, first),
                                static_cast<std::byte*>(part.reserve(0)) + loops.square_at(alone, 0, 0), form.bytes),
                    0)
              << column << ", " << first << " of " << k << " x " << n << (bfloat16 ? ", bfloat16" : "");
        }
      }
    }
  }
}

// Weights of 4 bits, and the numbers that they mean as an operand of so many lines.
struct FourBits {
  int64_t k, lines, groups = int4_groups(k);
  std::vector<Int4Square> squares{static_cast<size_t>((lines + 63) / 64 * (64 / Int4Square::kLines) * groups)};

  FourBits(int64_t depth, int64_t count, RandomInputs& random) : k(depth), lines(count) {
    for (Int4Square& square : squares) {
      const std::vector<float> scales = random.normal(Int4Square::kLines);
      for (size_t line = 0; line < Int4Square::kLines; ++line) square.scales[line] = BFloat16(scales[line]).bits;
      for (auto& pairs : square.pairs) {
        const std::vector<float> any = random.normal(Int4Square::kLines);
        for (size_t line = 0; line < Int4Square::kLines; ++line)
          pairs[line] = static_cast<uint8_t>(std::lround(1000 * any[line]));
      }
    }
  }
  float number(int64_t line, int64_t at) const {
    const Int4Square& from = squares[static_cast<size_t>(line / Int4Square::kLines * groups + at / kInt4Group)];
    const int pair = from.pairs[at % kInt4Group / 2][line % Int4Square::kLines];
    const uint32_t scale = from.scales[line % Int4Square::kLines];
    return static_cast<float>((at % 2 == 0 ? pair & 15 : pair >> 4) - 8) * std::bit_cast<float>(scale << 16);
  }
  template <typename Element, typename Rounding>
  std::vector<Element> operand(const Rounding& rounding) const {
    std::vector<Element> all;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t at = 0; at < k; ++at) all.push_back(rounding(number(line, at)));
    }
    return all;
  }
};

TEST_P(ProductLoopsOf, PackWeightsOfFourBitsAsTheNumbersThatTheyMean) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  for (const auto& [k, n] : {std::array<int64_t, 2>{1, 1}, {70, 50}, {200, 80}, {600, 40}, {1100, 33}}) {
    const FourBits weights(k, n, random);
    const auto expect_same = [&](const ProductShape& shape, const void* a, const void* numbers, Int4Rounding rounding) {
      std::vector<float> expected(static_cast<size_t>(shape.m * n)), c(expected.size());
      multiply(shape, a, numbers, expected.data());
      const ProductLoops& loops = GetParam().loops(shape.bfloat16);
      Scratch packed, scratch;
      loops.pack_int4(shape, {weights.groups, weights.squares.data(), rounding}, packed.reserve(loops.packed_bytes(shape)));
      loops.run(shape, a, packed.reserve(0), c.data(), scratch.reserve(loops.scratch_bytes(shape)));
      EXPECT_EQ(c, expected) << k << " x " << n << (shape.bfloat16 ? ", bfloat16, " : ", float32, ")
                             << static_cast<int>(rounding);
    };
    ProductShape shape = shape_of(3, k, n, false, true, false, false);
    const std::vector<float> a = random.normal(3 * k);
    const auto expect_rounded = [&](Int4Rounding rounding, float (*rounded)(float)) {
      expect_same(shape, a.data(), weights.operand<float>(rounded).data(), rounding);
    };
    expect_rounded(Int4Rounding::kNone, [](float x) { return x; });
    expect_rounded(Int4Rounding::kBFloat16, [](float x) -> float { return BFloat16(x); });
    expect_rounded(Int4Rounding::kFloat16, [](float x) -> float { return Float16(x); });
    if (!GetParam().bfloat16) continue;
    shape.bfloat16 = true;
    const std::vector<BFloat16> narrow(a.begin(), a.end());
    expect_same(shape, narrow.data(), weights.operand<BFloat16>([](float x) { return BFloat16(x); }).data(),
                Int4Rounding::kNone);
  }
}

TEST_P(ProductLoopsOf, WriteNothingBesideTheirColumns) {
  for (ProductShape shape : all_kinds(3, 41, 5)) {
    shape.c_width = 8;
    std::vector<float> c(3 * 8, -1.0F);
    multiply_rounded(shape, std::vector<float>(3 * 41, 1.0F), std::vector<float>(41 * 5, 1.0F), c.data());
    const float sum = shape.add ? 40.0F : 41.0F;
    for (size_t i = 0; i < c.size(); ++i) EXPECT_EQ(c[i], i % 8 < 5 ? sum : -1.0F) << i << kind_of(shape);
  }
}

// A bad number at every k, in row 0 of a and then in column 0 of b; the last k has no neighbour in a cell of two bfloat16.
TEST_P(ProductLoopsOf, KeepNumbersThatAreNotFinite) {
  for (const ProductShape& shape : all_kinds(2, 3, 2)) {
    const float sum = shape.add ? 3.5F : 3.0F;
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (size_t k = 0; k < 3; ++k) {
        SCOPED_TRACE(std::to_string(bad) + " at k " + std::to_string(k) + kind_of(shape));
        const std::vector<float> ones(6, 1.0F);
        std::vector<float> spoilt = ones, c(4, 0.5F);
        spoilt[k] = bad;
        multiply_rounded(shape, spoilt, ones, c.data());
        EXPECT_FALSE(std::isfinite(c[0]) || std::isfinite(c[1]));
        EXPECT_TRUE(c[2] == sum && c[3] == sum) << "the other row does not see it: " << c[2] << ", " << c[3];

        spoilt = ones;
        spoilt[2 * k] = bad;
        c.assign(4, 0.5F);
        multiply_rounded(shape, ones, spoilt, c.data());
        EXPECT_FALSE(std::isfinite(c[0]) || std::isfinite(c[2]));
        EXPECT_TRUE(c[1] == sum && c[3] == sum) << "the other column does not see it: " << c[1] << ", " << c[3];
      }
    }
  }
}

TEST_P(ProductLoopsOf, UseAllBitsOfAFloat32Operand) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  const std::vector<float> a = random.normal(64), one{1.0F};
  std::vector<float> c(64);
  multiply(shape_of(64, 1, 1, false, false, false, false), a.data(), one.data(), c.data());
  EXPECT_EQ(c, a);
}

INSTANTIATE_TEST_SUITE_P(All, ProductLoopsOf,
                         ::testing::Values(real<Isa::kAvx2>(9), real<Isa::kAvx512>(9), real<Isa::kAvx512Bf16>(9),
                                           real<Isa::kAmx>(2), kEmulated),
                         [](const auto& of) { return name_of(of.param); });

// The bits do not depend on the sizes of products before and after, or on which runs share a packed operand.
TEST(Products, HaveTheSameBitsWithAPackedOperandAndAmongOtherProducts) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat());
  const ProductShape shape = shape_of(40, 200, 70, true, false, false, false);
  const std::vector<float> a = random.normal(40 * 200), b = random.normal(200 * 70);
  std::vector<float> alone(40 * 70), packed_once(alone.size()), again(alone.size());
  Products products(2, best_isa());
  const Product product = products.prepare(shape);
  product.run(0, a.data(), b.data(), alone.data());

  Scratch packed;
  product.pack(b.data(), packed.reserve(product.packed_bytes()));
  product.run_packed(1, a.data(), packed.reserve(0), packed_once.data());
  EXPECT_EQ(packed_once, alone);

  const ProductShape larger = shape_of(80, 300, 100, false, true, false, false);
  std::vector<float> c(80 * 100);
  products.prepare(larger).run(0, random.normal(80 * 300).data(), random.normal(300 * 100).data(), c.data());
  product.run(0, a.data(), b.data(), again.data());
  EXPECT_EQ(again, alone);
}

}  // namespace
}  // namespace holdfast::kernels::cpu
