// Each kind of matrix tile against plain sums: which elements its lanes load, multiply and own. The instructions are emulated
// from the vendors' guides (shim/units.cpp). All numbers are small integers, so sums are exact in any order.
#include "kernels/hip/matrix_tile.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {
namespace {

constexpr int kStride = 24;  // elements from one row (or column) of 16 to the next
constexpr int kThreads = 64;

template <typename Tile, int Wave, typename Element, bool AByColumns, bool BByColumns>
void one_tile(float* c, const Element* a, const Element* b) {
  HOLDFAST_SHARED(Element[kTile * kStride], a_shared);
  HOLDFAST_SHARED(Element[kTile * kStride], b_shared);
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kStride; i += kThreads) {
    a_shared[i] = a[i];
    b_shared[i] = b[i];
  }
  barrier();
  typename Tile::Sums sums = {};
  for (int twice = 0; twice < 2; ++twice) {
    Tile::multiply(sums, Tile::template load_a<AByColumns>(a_shared, kStride),
                   Tile::template load_b<BByColumns>(b_shared, kStride));
  }
  const int lane = wave_lane<Wave>();
  if (static_cast<int>(threadIdx.x) >= Wave) return;
  for (int i = 0; i < Tile::kSums; ++i) c[Tile::row(lane, i) * kTile + Tile::column(lane, i)] = sums.c[i];
}

template <typename Tile, int Wave, typename Element, bool AByColumns, bool BByColumns>
void expect_a_product() {
  std::mt19937 random{7};
  std::vector<float> a(kTile * kTile), b(kTile * kTile);
  std::vector<Element> a_memory(kTile * kStride), b_memory(kTile * kStride);
  for (int row = 0; row < kTile; ++row) {
    for (int k = 0; k < kTile; ++k) {
      const auto at = [&](bool by_columns) { return by_columns ? k * kStride + row : row * kStride + k; };
      const auto next = [&] { return static_cast<float>(static_cast<int>(random() % 17) - 8); };
      a_memory[at(AByColumns)] = narrow<Element>(a[row * kTile + k] = next());
      b_memory[at(BByColumns)] = narrow<Element>(b[row * kTile + k] = next());
    }
  }
  std::vector<float> c(kTile * kTile, NAN);
  const Stream stream(0);
  launch(stream, "one tile", one_tile<Tile, Wave, Element, AByColumns, BByColumns>, 1, kThreads, c.data(), a_memory.data(),
         b_memory.data());
  stream.wait();
  for (int row = 0; row < kTile; ++row) {
    for (int column = 0; column < kTile; ++column) {
      float sum = 0;
      for (int k = 0; k < kTile; ++k) sum += a[row * kTile + k] * b[column * kTile + k];
      ASSERT_EQ(c[row * kTile + column], 2 * sum) << "row " << row << ", column " << column;
    }
  }
}

template <template <typename> typename Tile, int Wave>
void expect_products() {
  const auto of = []<typename Element>(Element) {
    expect_a_product<Tile<Element>, Wave, Element, false, false>();
    expect_a_product<Tile<Element>, Wave, Element, true, false>();
    expect_a_product<Tile<Element>, Wave, Element, false, true>();
    expect_a_product<Tile<Element>, Wave, Element, true, true>();
  };
  of(BFloat16{});
  of(Float16{});
}

template <typename Element>
using Plain32 = PlainTile<Element, 32>;
template <typename Element>
using Plain64 = PlainTile<Element, 64>;

TEST(MatrixTile, PlainInWavesOf32) {
  expect_products<Plain32, 32>();
}
TEST(MatrixTile, PlainInWavesOf64) {
  expect_products<Plain64, 64>();
}
TEST(MatrixTile, Rdna4) {
  expect_products<Wmma12Tile, 32>();
}
TEST(MatrixTile, Rdna3) {
  expect_products<Wmma11Tile, 32>();
}
TEST(MatrixTile, Cdna) {
  expect_products<MfmaTile, 64>();
}
TEST(MatrixTile, Nvidia) {
  expect_products<NvidiaTile, 32>();
}

}  // namespace
}  // namespace holdfast::kernels::hip
