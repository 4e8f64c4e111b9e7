// Each kind of matrix tile against plain sums: which elements its lanes load, multiply and own. The instructions are emulated
// from the vendors' guides (shim/units.cpp). All numbers are small integers, so sums are exact in any order.
#include "kernels/hip/matrix_tile.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/hip/matrix_chain.h"
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

// weights (16 fixed, 16 streamed) = fixed * streamed^T, as elements; out (16 fixed, 16 channels) = weights * x, x (16 streamed,
// 16 channels) by columns.
template <typename Tile, int Wave, typename Element>
void one_chain(float* out, float* totals, const Element* fixed, const Element* streamed, const Element* x) {
  using Link = Chain<Tile>;
  HOLDFAST_SHARED(Element[kTile * kStride], fixed_shared);
  HOLDFAST_SHARED(Element[kTile * kStride], streamed_shared);
  HOLDFAST_SHARED(Element[kTile * kStride], x_shared);
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kStride; i += kThreads) {
    fixed_shared[i] = fixed[i];
    streamed_shared[i] = streamed[i];
    x_shared[i] = x[i];
  }
  barrier();
  typename Tile::Sums scores = {}, sums = {};
  Link::multiply(scores, Link::load_fixed(fixed_shared, kStride), Link::load_streamed(streamed_shared, kStride));
  Element weights[Tile::kSums];
  float total[Link::kOwn] = {};
  for (int i = 0; i < Tile::kSums; ++i) {
    weights[i] = narrow<Element>(scores.c[i]);
    total[Link::own(i)] += scores.c[i];
  }
  Link::multiply(sums, Link::as_fixed(weights), Link::template load_streamed<true>(x_shared, kStride));
  const int lane = wave_lane<Wave>();
  for (int o = 0; o < Link::kOwn; ++o) {
    const float all = Link::over_streamed(total[o], Sum());
    if (threadIdx.x < Wave && Link::is_first_of_fixed(lane)) totals[Link::fixed_of_own(lane, o)] = all;
  }
  if (static_cast<int>(threadIdx.x) >= Wave) return;
  for (int i = 0; i < Tile::kSums; ++i) out[Link::fixed(lane, i) * kTile + Link::streamed(lane, i)] = sums.c[i];
}

template <template <typename> typename TileOf, int Wave>
void expect_chain() {
  const auto of = []<typename Element>(Element) {
    std::mt19937 random{11};
    std::vector<float> values[3];
    std::vector<Element> memory[3];
    for (int which = 0; which < 3; ++which) {  // fixed, streamed, x
      memory[which].resize(kTile * kStride);
      for (int row = 0; row < kTile; ++row) {
        for (int k = 0; k < kTile; ++k) {
          values[which].push_back(static_cast<float>(static_cast<int>(random() % 5) - 2));
          memory[which][row * kStride + k] = narrow<Element>(values[which].back());
        }
      }
    }
    std::vector<float> out(kTile * kTile, NAN), totals(kTile, NAN);
    const Stream stream(0);
    launch(stream, "one chain", one_chain<TileOf<Element>, Wave, Element>, 1, kThreads, out.data(), totals.data(),
           memory[0].data(), memory[1].data(), memory[2].data());
    stream.wait();
    for (int row = 0; row < kTile; ++row) {
      float weights[kTile], total = 0;
      for (int s = 0; s < kTile; ++s) {
        weights[s] = 0;
        for (int k = 0; k < kTile; ++k) weights[s] += values[0][row * kTile + k] * values[1][s * kTile + k];
        total += weights[s];
      }
      ASSERT_EQ(totals[row], total) << "row " << row;
      for (int c = 0; c < kTile; ++c) {
        float sum = 0;
        for (int s = 0; s < kTile; ++s) sum += weights[s] * values[2][s * kTile + c];
        ASSERT_EQ(out[row * kTile + c], sum) << "row " << row << ", channel " << c;
      }
    }
  };
  of(BFloat16{});
  of(Float16{});
}

TEST(MatrixChain, Rdna4) {
  expect_chain<Wmma12Tile, 32>();
}
TEST(MatrixChain, Rdna3) {
  expect_chain<Wmma11Tile, 32>();
}
TEST(MatrixChain, Cdna) {
  expect_chain<MfmaTile, 64>();
}
TEST(MatrixChain, Nvidia) {
  expect_chain<NvidiaTile, 32>();
}

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
