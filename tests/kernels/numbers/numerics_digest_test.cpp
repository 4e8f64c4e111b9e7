// The bits behind each numerics name (kernels/cpu/isa.h): digests of the outputs of every training op whose bits the cpu op set
// decides. A change of its loops that changes bits fails here until numerics_name() gives another number and the table has new
// digests: else workers of two releases could be in one exact job. (head_rows_backward has the bits of head_loss_backward, to
// which cpu_threads_test.cpp holds it.) Inputs are whole numbers times powers of two, the same with every library. ctest runs
// this program once for each instruction set (HOLDFAST_TEST_ISA).
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"
#include "tests/kernels/act_tensor.h"
#include "tests/kernels/token_runs.h"

namespace holdfast::kernels {
namespace {

using testing::ActTensor;

constexpr std::array<const char*, 5> kSubjects = {"linear layers", "attention", "head", "rows", "ranges"};
using Digests = std::array<uint64_t, kSubjects.size()>;
struct Known {
  std::string_view numerics;
  DType dtype;
  Digests digests;
};

// THE TABLE. A failure prints the row to put here. Where bits changed on purpose, numerics_name() has another number first.
constexpr Known kKnown[] = {
    {"cpu/avx2/products-3",
     DType::kFloat32,
     {0x20e9d3eef85662e3, 0x535f7835379c938b, 0x12d7c7c3782059c0, 0x6d11cf1c2a35779a, 0x41a1a542b0e7d4e0}},
    {"cpu/avx2/products-3",
     DType::kBFloat16,
     {0xfb048b6169ab45e2, 0xfa4708416e440cc8, 0xd979b3f8b6823649, 0x78fd41d6c23956e9, 0xba4000a2c9780e3a}},
    {"cpu/avx2/products-3",
     DType::kFloat16,
     {0xb3d8078e2606f421, 0xd4ec2fa0cd3628d9, 0x4a5476b9f95f2cf2, 0xc6c10adfa9a28c08, 0x5efaa2d6a58ffc9f}},
    {"cpu/avx512/products-3",
     DType::kFloat32,
     {0x20e9d3eef85662e3, 0xc504df5faa4c9945, 0x6ccaa93e8a0c7d8b, 0x6d9c5b3cf67d5f18, 0x23de601f929254d4}},
    {"cpu/avx512/products-3",
     DType::kBFloat16,
     {0xfb048b6169ab45e2, 0xcb2188fb5b0f97bc, 0x20e74e13765e0dc6, 0x120efc713fb49cb0, 0x281e0b5673b46548}},
    {"cpu/avx512/products-3",
     DType::kFloat16,
     {0xb3d8078e2606f421, 0x01ea2d8ffd2f19a6, 0x581f2e32dbe2321a, 0x593f60dc399214bc, 0xf3badb809d852a8f}},
    {"cpu/avx512_bf16-amd/products-4",
     DType::kFloat32,
     {0x20e9d3eef85662e3, 0xc504df5faa4c9945, 0x6ccaa93e8a0c7d8b, 0x6d9c5b3cf67d5f18, 0x23de601f929254d4}},
    {"cpu/avx512_bf16-amd/products-4",
     DType::kBFloat16,
     {0x559037f266675bec, 0x923b9dc59b0545dd, 0x5375c98cb4d2028c, 0x120efc713fb49cb0, 0x281e0b5673b46548}},
    {"cpu/avx512_bf16-amd/products-4",
     DType::kFloat16,
     {0xb3d8078e2606f421, 0x01ea2d8ffd2f19a6, 0x581f2e32dbe2321a, 0x593f60dc399214bc, 0xf3badb809d852a8f}},
};

class Drawn {
 public:
  explicit Drawn(uint64_t seed) : state_(seed) {}

  // Whole numbers from -2^23 up to 2^23, times 2^(exponent - 23): exact.
  std::vector<float> floats(int64_t count, int exponent = 0) {
    const float unit = std::ldexp(1.0F, exponent - 23);
    std::vector<float> x(static_cast<size_t>(count));
    for (float& value : x) value = static_cast<float>(static_cast<int32_t>(next() >> 40U) - (1 << 23)) * unit;
    return x;
  }
  std::vector<int32_t> below(int64_t limit, int64_t count) {
    std::vector<int32_t> x(static_cast<size_t>(count));
    for (int32_t& value : x) value = static_cast<int32_t>(next() % static_cast<uint64_t>(limit));
    return x;
  }

 private:
  uint64_t next() { return dropout_mix(state_ += 0x9e3779b97f4a7c15); }
  uint64_t state_;
};

std::vector<float> zeros(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count));
}

template <typename T>
uint64_t chained(uint64_t before, const std::vector<T>& x) {
  return XXH3_64bits_withSeed(x.data(), x.size() * sizeof(T), before);
}
uint64_t chained(uint64_t before, const ActTensor& x) {
  return XXH3_64bits_withSeed(x.act(), x.bytes(), before);
}
template <typename... Outputs>
uint64_t digest_of(const Outputs&... outputs) {
  uint64_t digest = 0;
  ((digest = chained(digest, outputs)), ...);
  return digest;
}

// Each extent is an inner dimension once, and longer than a block of it in any loops; rows are more than dbias adds at a time.
uint64_t linear_layers(DeviceOps& ops) {
  constexpr int64_t N = 531, IC = 521, OC = 530;
  const DType dtype = ops.activation_dtype();
  Drawn drawn(1);
  const ActTensor in(dtype, drawn.floats(N * IC)), weight(dtype, drawn.floats(OC * IC, -3)), dout(dtype, drawn.floats(N * OC)),
      before(dtype, drawn.floats(N * IC, 2));
  const auto bias = drawn.floats(OC);
  ActTensor out(dtype, N * OC), pre_gelu(dtype, N * OC), din(dtype, N * IC);
  auto dweight = zeros(OC * IC), dbias = zeros(OC);
  ops.matmul_forward(out.act(), pre_gelu.act(), in.act(), weight.act(), bias.data(), Epilogue::kGelu, N, IC, OC);
  ops.matmul_backward(din.act(), dweight.data(), dbias.data(), dout.act(), in.act(), before.act(), weight.act(), N, IC, OC);
  return digest_of(out, pre_gelu, din, dweight, dbias);
}

// Several blocks of queries, the last of which sees more keys than a block of k has.
uint64_t attention(DeviceOps& ops, double probability) {
  constexpr int64_t B = 1, T = 530, C = 48, NH = 2;
  const DType dtype = ops.activation_dtype();
  const Dropout dropout = dropout_of(probability).at(attention_site(3));
  Drawn drawn(2);
  const ActTensor qkv(dtype, drawn.floats(B * T * 3 * C, 1)), dout(dtype, drawn.floats(B * T * C));
  ActTensor out(dtype, B * T * C), dqkv(dtype, B * T * 3 * C);
  auto logsumexp = zeros(B * NH * T);
  ops.set_dropout_pass(dropout_pass(1, 2, 3));
  ops.attention_forward(out.act(), logsumexp.data(), qkv.act(), B, T, C, NH, dropout);
  ops.attention_backward(dqkv.act(), dout.act(), qkv.act(), out.act(), logsumexp.data(), B, T, C, NH, dropout);
  return digest_of(out, logsumexp, dqkv);
}

uint64_t head(DeviceOps& ops, int64_t N, int64_t C, int64_t V) {
  const DType dtype = ops.activation_dtype();
  Drawn drawn(3);
  const ActTensor x(dtype, drawn.floats(N * C)), wte(dtype, drawn.floats(V * C));
  const auto targets = drawn.below(V, N);
  auto losses = zeros(N), losses_of_backward = zeros(N), dwte = zeros(V * C);
  ActTensor dx(dtype, N * C);
  ops.head_loss(losses.data(), x.act(), wte.act(), targets.data(), N, C, V);
  ops.head_loss_backward(losses_of_backward.data(), dx.act(), dwte.data(), x.act(), wte.act(), targets.data(), N, C, V, 256.0F);
  return digest_of(losses, losses_of_backward, dx, dwte);
}

uint64_t rows(DeviceOps& ops) {
  constexpr int64_t B = 3, T = 100, N = B * T, C = 100, V = 60;
  const DType dtype = ops.activation_dtype();
  Drawn drawn(4);
  const auto tokens = drawn.below(V, N);
  const testing::RunsOfTokens runs(tokens);
  const ActTensor wte(dtype, drawn.floats(V * C)), addend(dtype, drawn.floats(N * C)), dout(dtype, drawn.floats(N * C));
  const auto wpe = drawn.floats(T * C), weight = drawn.floats(C), bias = drawn.floats(C);
  auto embedded = zeros(N * C), residual = zeros(N * C), mean = zeros(N), rstd = zeros(N), dresidual = drawn.floats(N * C),
       dweight = zeros(C), dbias = zeros(C), dwte = zeros(V * C), dwpe = zeros(T * C);
  ActTensor normed(dtype, N * C), dx(dtype, N * C);
  ops.encoder_forward(embedded.data(), tokens.data(), wte.act(), wpe.data(), B, T, C);
  ops.layernorm_forward(normed.act(), residual.data(), mean.data(), rstd.data(), embedded.data(), addend.act(), weight.data(),
                        bias.data(), N, C);
  ops.layernorm_backward(dresidual.data(), dx.act(), dweight.data(), dbias.data(), dout.act(), residual.data(), weight.data(),
                         mean.data(), rstd.data(), N, C);
  ops.encoder_backward_tokens(dwte.data(), dresidual.data(), runs.on_host(), C);
  ops.encoder_backward_positions(dwpe.data(), dresidual.data(), B, T, C);
  const uint64_t digest = digest_of(embedded, residual, mean, rstd, normed, dresidual, dx, dweight, dbias, dwte, dwpe);
  ops.layernorm_forward(normed.act(), nullptr, mean.data(), rstd.data(), embedded.data(), nullptr, weight.data(), bias.data(),
                        N, C);
  ops.set_dropout_pass(dropout_pass(1, 2, 3));
  ops.drop(dx.act(), dropout_of(0.3).at(mlp_output_site(5)), N, C);
  ops.drop(embedded.data(), dropout_of(0.01).at(kEmbeddingSite), N, C);
  return digest_of(std::vector<uint64_t>{digest}, normed, mean, rstd, dx, embedded);
}

// Ranges of several blocks, the last of which is no whole number of vectors.
uint64_t ranges(DeviceOps& ops) {
  constexpr int64_t kCount = 70001, kRows = 97, kColumns = 33;
  Drawn drawn(5);
  const auto gradient = drawn.floats(kCount), x = drawn.floats(kCount, 3), rows_to_add = drawn.floats(kRows * kColumns);
  auto parameters = drawn.floats(kCount), m = drawn.floats(kCount), v = drawn.floats(kCount), averaged = x, momentum = m;
  for (float& square : v) square = std::fabs(square);
  ActTensor narrow(ops.activation_dtype(), kCount);
  auto difference = zeros(kCount), scaled = zeros(kCount), unpacked = zeros(kCount), short_unpacked = zeros(kCount), total = x;
  std::vector<int32_t> sums(kCount), ids(kRows);
  std::vector<int16_t> short_sums(kCount);
  for (int32_t r = 0; r < kRows; ++r) ids[static_cast<size_t>(r)] = 3 * r;
  ops.adamw(parameters.data(), m.data(), v.data(), gradient.data(), kCount,
            {3e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.271F, 0.142625F, 0.37F});
  ops.nesterov(averaged.data(), momentum.data(), gradient.data(), kCount, {0.7F, 0.9F});
  ops.cast(narrow.act(), parameters.data(), kCount);
  ops.subtract(difference.data(), parameters.data(), x.data(), kCount);
  ops.scale(scaled.data(), x.data(), kCount, 0.3F);
  for (const bool first : {true, false}) {
    ops.fixed_accumulate(sums.data(), first ? x.data() : gradient.data(), kCount, 20, first);
    ops.fixed_accumulate(short_sums.data(), first ? x.data() : gradient.data(), kCount, 10, first);
  }
  ops.fixed_unpack(unpacked.data(), sums.data(), kCount, 0.3e-5F);
  ops.fixed_unpack(short_unpacked.data(), short_sums.data(), kCount, 0.3e-3F);
  ops.float_accumulate(total.data(), gradient.data(), kCount, false);
  ops.add_rows(total.data(), rows_to_add.data(), ids.data(), kRows, kColumns);
  const std::vector<double> numbers = {ops.sum_of_squares(gradient.data(), kCount), ops.sum(x.data(), kCount),
                                       static_cast<double>(ops.abs_max(x.data(), kCount))};
  return digest_of(parameters, m, v, averaged, momentum, narrow, difference, scaled, sums, short_sums, unpacked, short_unpacked,
                   total, numbers);
}

Digests digests_of(DeviceOps& ops) {
  const auto both = [](uint64_t a, uint64_t b) { return digest_of(std::vector<uint64_t>{a, b}); };
  // Heads of more tiles of the vocabulary than there are groups, and of more chunks of rows.
  const uint64_t of_heads = both(head(ops, 600, 16, 8210), head(ops, 16424, 8, 40));
  return {linear_layers(ops), both(attention(ops, 0), attention(ops, 0.1)), of_heads, rows(ops), ranges(ops)};
}

std::string row_of_table(const std::string& numerics, DType dtype, const Digests& digests) {
  const char* const type = dtype == DType::kFloat32 ? "kFloat32" : dtype == DType::kBFloat16 ? "kBFloat16" : "kFloat16";
  std::string row = "    {\"" + numerics + "\", DType::" + type + ",\n     {";
  for (size_t i = 0; i < digests.size(); ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%s0x%016" PRIx64, i == 0 ? "" : ", ", digests[i]);
    row += text;
  }
  return row + "}},";
}

// A name without the number of the loops: "cpu/avx2".
std::string_view without_number(std::string_view numerics) {
  return numerics.substr(0, numerics.rfind('/'));
}

class NumericsDigest : public ::testing::TestWithParam<DType> {};

TEST_P(NumericsDigest, IsThatOfTheName) {
  const auto ops = make_cpu_ops(GetParam(), 2);
  const std::string name = ops->info().numerics;
  if (std::ranges::none_of(kKnown, [&](const Known& one) { return without_number(one.numerics) == without_number(name); }))
    GTEST_SKIP() << "not run here: this machine computes as " << name << ", and the table has no digests of that";
  const Digests found = digests_of(*ops);
  const auto* const known =
      std::ranges::find_if(kKnown, [&](const Known& one) { return one.numerics == name && one.dtype == GetParam(); });
  std::string others;
  for (size_t i = 0; i < found.size(); ++i) {
    if (known != std::end(kKnown) && known->digests[i] == found[i]) continue;
    others += (others.empty() ? "" : ", ") + std::string(kSubjects[i]);
  }
  EXPECT_TRUE(others.empty()) << name << ", " << dtype_name(GetParam()) << ": other bits of " << others
                              << ". If that is meant, give the loops another number (kernels/cpu/isa.cpp, numerics_name) and "
                                 "put this row into the table:\n"
                              << row_of_table(name, GetParam(), found);
}

INSTANTIATE_TEST_SUITE_P(Types, NumericsDigest, ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& chosen) { return dtype_name(chosen.param); });

}  // namespace
}  // namespace holdfast::kernels
