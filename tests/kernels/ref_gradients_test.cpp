// The judge's own test: every backward formula against central differences of its forward formula, all in double. The
// difference quotient (step 1e-5) is right to about 1e-9. The loss is a randomly weighted sum of the outputs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/ref/attention.h"
#include "kernels/ref/encoder.h"
#include "kernels/ref/head.h"
#include "kernels/ref/layernorm.h"
#include "kernels/ref/matmul.h"
#include "tests/kernels/random_inputs.h"
#include "tests/kernels/token_runs.h"

namespace holdfast::kernels {
namespace {

using testing::RandomInputs;
using Doubles = std::vector<double>;

double weighted(const Doubles& weights, const Doubles& x) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += weights[i] * x[i];
  return total;
}

// Checks that `gradient` is the gradient of `loss` at x.
void expect_gradient(const Doubles& gradient, Doubles& x, const std::function<double()>& loss, const char* name) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(gradient.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double here = x[i];
    x[i] = here + kStep;
    const double above = loss();
    x[i] = here - kStep;
    const double below = loss();
    x[i] = here;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-8 * (1 + std::fabs(gradient[i]))) << name << "[" << i << "]";
  }
}

class RefGradients : public ::testing::Test {
 protected:
  RandomInputs random_;
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, random_.how_to_repeat()};
};

TEST_F(RefGradients, Encoder) {
  constexpr int64_t B = 2, T = 3, C = 5, V = 4;
  const std::vector<int32_t> tokens = {0, 3, 3, 1, 3, 0};  // token 2 never, token 3 three times
  auto wte = random_.normal_doubles(V * C), wpe = random_.normal_doubles(T * C);
  const auto dout = random_.normal_doubles(B * T * C);
  Doubles out(B * T * C), dwte(V * C, 0.0), dwpe(T * C);
  ref::encoder_backward_tokens(dwte.data(), dout.data(), testing::RunsOfTokens(tokens).on_host(), C);
  ref::encoder_backward_positions(dwpe.data(), dout.data(), B, T, C);
  const auto loss = [&] {
    ref::encoder_forward(out.data(), tokens.data(), wte.data(), wpe.data(), B, T, C);
    return weighted(dout, out);
  };
  expect_gradient(dwte, wte, loss, "dwte");
  expect_gradient(dwpe, wpe, loss, "dwpe");
}

TEST_F(RefGradients, LayerNormAddsToTheGradientOfTheResidual) {
  constexpr int64_t N = 4, C = 7;
  auto residual = random_.normal_doubles(N * C), x = random_.normal_doubles(N * C);
  auto weight = random_.normal_doubles(C), bias = random_.normal_doubles(C);
  const auto dout = random_.normal_doubles(N * C), dsum = random_.normal_doubles(N * C);  // the sum is also an output
  Doubles out(N * C), sum(N * C), mean(N), rstd(N), dweight(C), dbias(C), dx(N * C), dresidual = dsum;
  const auto loss = [&] {
    ref::layernorm_forward(out.data(), sum.data(), mean.data(), rstd.data(), residual.data(), x.data(), weight.data(),
                           bias.data(), N, C);
    return weighted(dout, out) + weighted(dsum, sum);
  };
  loss();
  ref::layernorm_backward(dresidual.data(), dx.data(), dweight.data(), dbias.data(), dout.data(), sum.data(), weight.data(),
                          mean.data(), rstd.data(), N, C);
  expect_gradient(dresidual, residual, loss, "dresidual");
  expect_gradient(dx, x, loss, "dx");
  expect_gradient(dweight, weight, loss, "dweight");
  expect_gradient(dbias, bias, loss, "dbias");
}

TEST_F(RefGradients, MatmulWithGelu) {
  constexpr int64_t N = 3, IC = 5, OC = 4;
  auto in = random_.normal_doubles(N * IC), weight = random_.normal_doubles(OC * IC), bias = random_.normal_doubles(OC);
  const auto dout = random_.normal_doubles(N * OC);
  Doubles out(N * OC), pre_gelu(N * OC), dpre(N * OC), din(N * IC), dweight(OC * IC), dbias(OC);
  const auto loss = [&] {
    ref::matmul_forward(out.data(), pre_gelu.data(), in.data(), weight.data(), bias.data(), Epilogue::kGelu, N, IC, OC);
    return weighted(dout, out);
  };
  loss();
  ref::gelu_backward<double>(dpre.data(), pre_gelu.data(), dout.data(), N * OC);
  ref::matmul_backward(din.data(), dweight.data(), dbias.data(), dpre.data(), in.data(), weight.data(), N, IC, OC);
  expect_gradient(din, in, loss, "din");
  expect_gradient(dweight, weight, loss, "dweight");
  expect_gradient(dbias, bias, loss, "dbias");
}

TEST_F(RefGradients, AttentionWithAndWithoutDropout) {
  constexpr int64_t B = 2, T = 5, C = 6, NH = 2;
  constexpr uint64_t kPass = 77;
  auto qkv = random_.normal_doubles(B * T * 3 * C);
  const auto dout = random_.normal_doubles(B * T * C);
  for (const double probability : {0.0, 0.4}) {
    SCOPED_TRACE(probability);
    const Dropout dropout = dropout_of(probability);
    Doubles out(B * T * C), logsumexp(B * NH * T), dqkv(B * T * 3 * C), scratch;
    const auto loss = [&] {
      ref::attention_forward(out.data(), logsumexp.data(), qkv.data(), scratch, B, T, C, NH, dropout, kPass);
      return weighted(dout, out);
    };
    loss();
    ref::attention_backward(dqkv.data(), dout.data(), qkv.data(), out.data(), logsumexp.data(), scratch, B, T, C, NH, dropout,
                            kPass);
    expect_gradient(dqkv, qkv, loss, "dqkv");
  }
}

TEST_F(RefGradients, HeadForTheMeanLossTimesAScale) {
  constexpr int64_t N = 3, C = 4, V = 7;
  auto x = random_.normal_doubles(N * C), wte = random_.normal_doubles(V * C);
  const auto targets = random_.below(V, N);
  Doubles losses(N), dx(N * C), dwte(V * C), scratch;
  ref::head_loss_backward(losses.data(), dx.data(), dwte.data(), x.data(), wte.data(), targets.data(), scratch, N, C, V, 4.0);
  const auto loss = [&] {
    ref::head_loss(losses.data(), x.data(), wte.data(), targets.data(), scratch, N, C, V);
    return weighted(Doubles(N, 4.0 / N), losses);
  };
  expect_gradient(dx, x, loss, "dx");
  expect_gradient(dwte, wte, loss, "dwte");
}

}  // namespace
}  // namespace holdfast::kernels
