// Which products are kept: those in use, however many other shapes come by.
#include "kernels/cpu/products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/ops.h"

namespace holdfast::kernels::cpu {
namespace {

ProductShape float_shape(int64_t m) {
  return {m, 3, 2, by_rows(3), by_rows(2), 2, false, false};
}

TEST(Products, ThoseInUseAreKeptWhateverElseIsAskedFor) {
  make_cpu_ops(DType::kFloat32, 1);  // oneDNN is limited before it is used
  Products products(1, false);
  const auto always = products.prepare(float_shape(1));
  const auto once = products.prepare(float_shape(2));
  const std::weak_ptr<const Product> second = products.prepare(float_shape(3));
  for (int64_t m = 4; m < 4 + static_cast<int64_t>(Products::kMost); ++m) {
    ASSERT_FALSE(products.prepare(float_shape(m)) == nullptr);
    ASSERT_EQ(products.prepare(float_shape(1)), always) << "after " << m << " shapes";
  }
  EXPECT_TRUE(second.expired()) << "it was asked for longest ago, and nobody holds it";
  EXPECT_NE(products.prepare(float_shape(2)), once) << "it is made again";

  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3, 4, 5, 6};  // (2, 3), (3, 2)
  float c[4] = {};
  once->run(0, a, b, c);
  products.check();
  EXPECT_EQ(c[0], 22);
  EXPECT_EQ(c[3], 64) << "whoever holds one may still run it";
}

// Attention keeps lists of products per length: they come and go as lengths do, and the bits stay.
TEST(Products, AttentionHasTheSameBitsAfterHundredsOfOtherLengths) {
  constexpr int64_t kC = 16, kHeads = 2, kMost = 420;
  const auto ops = make_cpu_ops(DType::kFloat32, 2);
  std::vector<float> qkv(kMost * 3 * kC), dout(kMost * kC), logsumexp(kMost * kHeads);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < dout.size(); ++i) dout[i] = std::cos(static_cast<float>(i));
  const auto act = [](std::vector<float>& x) { return reinterpret_cast<Act*>(x.data()); };
  const auto forward = [&](int64_t T) {
    std::vector<float> out(static_cast<size_t>(T * kC));
    ops->attention_forward(act(out), logsumexp.data(), act(qkv), 1, T, kC, kHeads);
    return out;
  };
  const auto both = [&] {
    std::vector<float> out = forward(300), dqkv(300 * 3 * kC);
    ops->attention_backward(act(dqkv), act(dout), act(qkv), act(out), logsumexp.data(), 1, 300, kC, kHeads);
    out.insert(out.end(), dqkv.begin(), dqkv.end());
    return out;
  };
  const auto before = both();
  for (int64_t T = 1; T <= kMost; ++T) forward(T);
  const auto after = both();
  EXPECT_EQ(std::memcmp(before.data(), after.data(), before.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace holdfast::kernels::cpu
