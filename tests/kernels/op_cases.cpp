// The cases of op_cases.h. A case captures its inputs by value; its outputs live for one run.
#include "tests/kernels/op_cases.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/kernels/act_tensor.h"
#include "tests/kernels/numbers/range_cases.h"
#include "tests/kernels/on_device.h"
#include "tests/kernels/token_runs.h"

namespace holdfast::kernels::testing {
namespace {

// Bound for a value rounded to bfloat16: the neighbouring value is 2^-8 away, doubled for the effect of rounded inputs.
constexpr Bound kRounded{1.0 / 128, 2e-5};
// Bound for a value that was rounded, went through GELU and was rounded again; its argument may be large where gelu is near 0.
constexpr Bound kRoundedTwice{3.0 / 128, 5e-4};
// The same two bounds for float16, which has three more bits.
constexpr Bound kRoundedToHalf{1.0 / 1024, 2e-5}, kRoundedToHalfTwice{3.0 / 1024, 7e-5};

OpCase encoder(RandomInputs& random, int64_t B, int64_t T, int64_t C, int64_t V) {
  const auto tokens = random.below(static_cast<int32_t>(V), B * T);
  const auto wte = random.normal(V * C), wpe = random.normal(T * C), dout = random.normal(B * T * C),
             before = random.normal(V * C);
  const RunsOfTokens runs(tokens);
  return {case_name("encoder B,T,C,V", B, T, C, V), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            const ActTensor act_wte(ops.activation_dtype(), wte);
            auto out = poisoned(B * T * C), dwte = before, dwpe = poisoned(T * C);
            std::vector<float> rows(runs.ids.size() * static_cast<size_t>(C));
            ops.encoder_forward(on.of(out), on.of(tokens), on.of(act_wte), on.of(wpe), B, T, C);
            const TokenRuns of_all = {on.of(runs.ids), on.of(runs.starts), on.of(runs.positions), runs.R()};
            ops.encoder_backward_tokens(on.of(dwte), on.of(dout), of_all, C);
            ops.encoder_backward_tokens(on.of(rows), on.of(dout), {nullptr, of_all.starts, of_all.positions, of_all.R}, C);
            ops.encoder_backward_positions(on.of(dwpe), on.of(dout), B, T, C);
            on.fetch();
            return {{"out", kExact, values(out)},
                    {"dwte", kExact, values(dwte)},
                    {"rows", kExact, values(rows)},
                    {"dwpe", kExact, values(dwpe)}};
          }};
}

OpCase layernorm(DType dtype, RandomInputs& random, int64_t N, int64_t C, bool with_addend) {
  const auto residual = random.normal(N * C, 3.0f), weight = random.normal(C), bias = random.normal(C);
  const auto dresidual_before = random.normal(N * C);
  const ActTensor x(dtype, random.normal(N * C)), dout(dtype, random.normal(N * C));
  return {case_name("layernorm N,C,x", N, C, with_addend), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor out(dtype, N * C), dx(dtype, N * C);
            auto sum = poisoned(N * C), mean = poisoned(N), rstd = poisoned(N), dweight = poisoned(C), dbias = poisoned(C);
            auto dresidual = dresidual_before;
            ops.layernorm_forward(on.of(out), with_addend ? on.of(sum) : nullptr, on.of(mean), on.of(rstd), on.of(residual),
                                  with_addend ? on.of(x) : nullptr, on.of(weight), on.of(bias), N, C);
            if (!with_addend) sum = residual;
            ops.layernorm_backward(on.of(dresidual), with_addend ? on.of(dx) : nullptr, on.of(dweight), on.of(dbias),
                                   on.of(dout), on.of(sum), on.of(weight), on.of(mean), on.of(rstd), N, C);
            on.fetch();
            std::vector<Output> all = {{"out", stored(dtype), out.values()},       {"residual", kExact, values(sum)},
                                       {"mean", kFloatSum, values(mean)},          {"rstd", kFloatSum, values(rstd)},
                                       {"dweight", kFloatSum, values(dweight)},    {"dbias", kFloatSum, values(dbias)},
                                       {"dresidual", kFloatSum, values(dresidual)}};
            if (with_addend) all.push_back({"dx", stored(dtype), dx.values()});
            return all;
          }};
}

// If the op set rounds biases, they are rounded here already, for both op sets.
OpCase matmul(DType dtype, RandomInputs& random, int64_t N, int64_t IC, int64_t OC, Epilogue epilogue,
              Bias rounding = Bias::kFloat) {
  const ActTensor in(dtype, random.normal(N * IC)), dout(dtype, random.normal(N * OC));
  const ActTensor weight(dtype, random.normal(OC * IC, 1.0f / std::sqrt(static_cast<float>(IC))));
  auto bias = random.normal(OC);
  if (rounding == Bias::kRounded) {
    const auto rounded = ActTensor(dtype, bias).values();
    bias.assign(rounded.begin(), rounded.end());
  }
  const bool gelu = epilogue == Epilogue::kGelu;
  const ActTensor before(dtype, random.normal(gelu ? N * IC : 0, 4.0f));  // of which `in` were GELU
  return {case_name("matmul N,IC,OC,gelu", N, IC, OC, gelu), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor out(dtype, N * OC), pre_gelu(dtype, N * OC), din(dtype, N * IC);
            auto dweight = poisoned(OC * IC), dbias = poisoned(OC);
            ops.matmul_forward(on.of(out), gelu ? on.of(pre_gelu) : nullptr, on.of(in), on.of(weight), on.of(bias), epilogue, N,
                               IC, OC);
            ops.matmul_backward(on.of(din), on.of(dweight), on.of(dbias), on.of(dout), on.of(in),
                                gelu ? on.of(before) : nullptr, on.of(weight), N, IC, OC);
            on.fetch();
            const Bound bound = gelu ? stored_twice(dtype) : stored(dtype);
            std::vector<Output> all = {{"out", bound, out.values()},
                                       {"din", bound, din.values()},
                                       {"dweight", kFloatSum, values(dweight)},
                                       {"dbias", kFloatSum, values(dbias)}};
            if (gelu) all.push_back({"pre_gelu", stored(dtype), pre_gelu.values()});
            return all;
          }};
}

constexpr uint64_t kDropoutPass = 0xfeedfacecafebeef;

OpCase drop(DType dtype, RandomInputs& random, int64_t N, int64_t C) {
  const ActTensor x(dtype, random.normal(N * C));
  const auto residual = random.normal(N * C);
  return {case_name("drop N,C", N, C), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor y = x;
            auto z = residual;
            ops.set_dropout_pass(kDropoutPass);
            ops.drop(on.of(y), dropout_of(0.3).at(mlp_output_site(5)), N, C);
            ops.drop(on.of(z), dropout_of(0.01).at(kEmbeddingSite), N, C);
            on.fetch();
            return {{"activations", kExact, y.values()}, {"floats", kExact, values(z)}};
          }};
}

OpCase attention(DType dtype, RandomInputs& random, int64_t B, int64_t T, int64_t C, int64_t NH, double probability = 0) {
  const Dropout dropout = dropout_of(probability).at(attention_site(3));
  const ActTensor qkv(dtype, random.normal(B * T * 3 * C, 1.5f)), dout(dtype, random.normal(B * T * C));
  // The backward op gets `out` and `logsumexp` from ref, so that the case compares the backward op alone.
  auto ref = make_ref_ops(dtype);
  ActTensor out(dtype, B * T * C);
  auto logsumexp = poisoned(B * NH * T);
  ref->set_dropout_pass(kDropoutPass);
  ref->attention_forward(out.act(), logsumexp.data(), qkv.act(), B, T, C, NH, dropout);
  // ref keeps probabilities and their gradients in float32; an op set may round them to the activation dtype.
  // A few large terms make up a gradient, and each is rounded to 16 bits on the way. With half of this one seed
  // was 4 % beyond it (3874264717, bfloat16).
  const Bound bound = dtype == DType::kFloat32 ? stored(dtype) : Bound{1.0 / 128, 8e-3};
  return {case_name("attention B,T,C,NH,dropout", B, T, C, NH, probability), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor y(dtype, B * T * C), dqkv(dtype, B * T * 3 * C);
            auto normalizers = poisoned(B * NH * T);
            ops.set_dropout_pass(kDropoutPass);
            ops.attention_forward(on.of(y), on.of(normalizers), on.of(qkv), B, T, C, NH, dropout);
            ops.attention_backward(on.of(dqkv), on.of(dout), on.of(qkv), on.of(out), on.of(logsumexp), B, T, C, NH, dropout);
            on.fetch();
            return {{"out", bound, y.values()}, {"logsumexp", kFloatSum, values(normalizers)}, {"dqkv", bound, dqkv.values()}};
          }};
}

// Other ops come between, which use the same scratch: a head's loss, and a product of numbers that are not finite.
void use_scratch(DeviceOps& ops, float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                 int64_t V) {
  constexpr int64_t OC = 40;
  const DType dtype = ops.activation_dtype();
  const ActTensor dout(dtype, N * OC), in(dtype, N * C), weight(dtype, OC * C);
  ActTensor din(dtype, N * C);
  auto dweight = poisoned(OC * C), dbias = poisoned(OC);
  OnDevice on(ops);
  ops.head_loss(losses, x, wte, targets, N, C, V);
  ops.matmul_backward(on.of(din), on.of(dweight), on.of(dbias), on.of(dout), on.of(in), nullptr, on.of(weight), N, C, OC);
  on.fetch();
}

// The rows of dwte in groups; whole where the op set has no groups.
void dwte_by_rows(DeviceOps& ops, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                  int64_t V, float loss_scale, float* losses, Act* dx) {
  const int64_t unit = ops.head_rows();
  ops.head_loss_backward(losses, dx, unit == 0 ? dwte : nullptr, x, wte, targets, N, C, V, loss_scale);
  if (unit == 0) return;
  use_scratch(ops, losses, x, wte, targets, N, C, V);
  const int64_t group = unit * std::max<int64_t>(1, 700 / unit);
  for (int64_t first = (V - 1) / group * group; first >= 0; first -= group) {
    ops.head_rows_backward(dwte + first * C, first, std::min(group, V - first), x, wte, targets, N, C, V, loss_scale);
  }
}

OpCase head(DType dtype, RandomInputs& random, int64_t N, int64_t C, int64_t V, float loss_scale) {
  const ActTensor x(dtype, random.normal(N * C)), wte(dtype, random.normal(V * C, 0.5f));
  const auto targets = random.below(static_cast<int32_t>(V), N);
  // ref rounds dlogits to the activation dtype; an op set may keep them in float32.
  const double scale = static_cast<double>(loss_scale) / static_cast<double>(N);
  const double terms =
      std::max(1.0, std::sqrt(static_cast<double>(V) / 8192));  // of dx: their errors add up like a random walk
  const Bound gradient = dtype == DType::kFloat32 ? Bound{0, kFloatSum.absolute * terms, scale} : Bound{1.0 / 128, 4e-3, scale};
  return {case_name("head N,C,V,scale", N, C, V, static_cast<int>(loss_scale)), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            auto losses = poisoned(N), losses_again = poisoned(N), dwte = poisoned(V * C);
            auto dwte_again = poisoned(V * C);
            ActTensor dx(dtype, N * C);
            dwte_by_rows(ops, on.of(dwte_again), on.of(x), on.of(wte), on.of(targets), N, C, V, loss_scale, on.of(losses),
                         on.of(dx));
            ops.head_loss(on.of(losses), on.of(x), on.of(wte), on.of(targets), N, C, V);
            ops.head_loss_backward(on.of(losses_again), on.of(dx), on.of(dwte), on.of(x), on.of(wte), on.of(targets), N, C, V,
                                   loss_scale);
            on.fetch();
            return {{"losses", kFloatSum, values(losses)},
                    {"losses of backward", kFloatSum, values(losses_again)},
                    {"dx", gradient, dx.values()},
                    {"dwte", gradient, values(dwte)},
                    {"dwte by rows", gradient, values(dwte_again)}};
          }};
}

}  // namespace

Bound stored(DType activations) {
  return activations == DType::kFloat32 ? kFloatSum : activations == DType::kBFloat16 ? kRounded : kRoundedToHalf;
}
Bound stored_twice(DType activations) {
  return activations == DType::kFloat32 ? kFloatSum : activations == DType::kBFloat16 ? kRoundedTwice : kRoundedToHalfTwice;
}

std::vector<OpCase> small_cases(DType dtype, RandomInputs& random, Bias bias) {
  std::vector<OpCase> cases = {encoder(random, 1, 1, 8, 5), encoder(random, 2, 7, 24, 51), encoder(random, 3, 33, 100, 40)};
  for (const auto& [N, C] : {std::pair{1, 2}, {1, 8}, {7, 24}, {130, 100}, {33, 384}}) {
    cases.push_back(layernorm(dtype, random, N, C, true));
    cases.push_back(layernorm(dtype, random, N, C, false));
  }
  for (const auto& [N, IC, OC] : {std::tuple{1, 1, 1}, {1, 8, 3}, {7, 24, 17}, {33, 100, 50}, {300, 72, 600}, {530, 40, 520}}) {
    cases.push_back(matmul(dtype, random, N, IC, OC, Epilogue::kNone, bias));
    cases.push_back(matmul(dtype, random, N, IC, OC, Epilogue::kGelu, bias));
  }
  for (const auto& [N, C] : {std::pair{1, 1}, {7, 24}, {33, 300}}) cases.push_back(drop(dtype, random, N, C));
  // Sums of weights' and inputs' gradients over many pieces.
  for (const auto& [N, IC, OC] : {std::tuple{530, 520, 40}, {40, 530, 520}}) {
    cases.push_back(matmul(dtype, random, N, IC, OC, Epilogue::kNone, bias));
  }
  for (const auto& [B, T, C, NH] :
       {std::tuple{1, 1, 8, 1}, {2, 7, 24, 3}, {1, 130, 32, 2}, {1, 129, 64, 1}, {2, 33, 40, 1}, {1, 300, 48, 2}}) {
    for (const double dropout : {0.0, 0.25}) cases.push_back(attention(dtype, random, B, T, C, NH, dropout));
  }
  for (const auto& [N, C, V] : {std::tuple{1, 8, 5}, {1, 1, 1}, {7, 24, 51}, {33, 40, 513}, {530, 16, 1100}}) {
    for (const float loss_scale : {1.0f, 256.0f}) cases.push_back(head(dtype, random, N, C, V, loss_scale));
  }
  for (auto& one : small_range_cases(dtype, random)) cases.push_back(std::move(one));
  return cases;
}

std::vector<OpCase> large_cut_cases(DType dtype, RandomInputs& random, Bias bias) {
  return {matmul(dtype, random, 2048, 40, 2050, Epilogue::kGelu, bias),
          matmul(dtype, random, 2050, 2052, 40, Epilogue::kNone, bias),
          matmul(dtype, random, 72, 2048, 2050, Epilogue::kNone, bias), head(dtype, random, 300, 24, 33000, 256.0f)};
}

std::vector<OpCase> large_tile_cases(DType dtype, RandomInputs& random) {
  std::vector<OpCase> cases;
  if (dtype != DType::kFloat32) cases.push_back(head(dtype, random, 8, 520, 530, 256.0f));
  // float16 is multiplied in the tiles of float32.
  if (dtype != DType::kFloat16) cases.push_back(matmul(dtype, random, 770, 8, 1540, Epilogue::kNone));
  return cases;
}

std::vector<OpCase> large_cases(DType dtype, RandomInputs& random) {
  std::vector<OpCase> cases = {encoder(random, 3, 100, 200, 77),
                               layernorm(dtype, random, 1030, 96, true),
                               matmul(dtype, random, 1030, 96, 1152, Epilogue::kGelu),
                               matmul(dtype, random, 300, 1536, 384, Epilogue::kNone),
                               matmul(dtype, random, 2048, 100, 33, Epilogue::kNone),
                               attention(dtype, random, 3, 300, 96, 3),
                               attention(dtype, random, 3, 300, 96, 3, 0.1),
                               drop(dtype, random, 1500, 768),
                               head(dtype, random, 1100, 24, 9001, 4096.0f)};  // more rows than are kept at once
  for (auto& one : large_range_cases(dtype, random)) cases.push_back(std::move(one));
  return cases;
}

}  // namespace holdfast::kernels::testing
