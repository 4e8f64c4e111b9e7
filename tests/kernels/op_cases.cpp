// The cases of op_cases.h. A case captures its inputs by value; its outputs live for one run.
#include "tests/kernels/op_cases.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tests/kernels/act_tensor.h"
#include "tests/kernels/on_device.h"
#include "tests/kernels/token_runs.h"

namespace holdfast::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Bound for a value rounded to bfloat16: the neighbouring value is 2^-8 away, doubled for the effect of rounded inputs.
constexpr Bound kRounded{1.0 / 128, 2e-5};
// Bound for a value that was rounded, went through GELU and was rounded again; its argument may be large where gelu is near 0.
constexpr Bound kRoundedTwice{3.0 / 128, 5e-4};
// The same two bounds for float16, which has three more bits.
constexpr Bound kRoundedToHalf{1.0 / 1024, 2e-5}, kRoundedToHalfTwice{3.0 / 1024, 7e-5};

std::vector<float> poisoned(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), kNan);
}
std::vector<double> values(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

template <typename... Sizes>
std::string shape(const char* op, Sizes... sizes) {
  std::string name = op;
  (name.append(" ").append(std::to_string(sizes)), ...);
  return name;
}

OpCase encoder(RandomInputs& random, int64_t B, int64_t T, int64_t C, int64_t V) {
  const auto tokens = random.below(static_cast<int32_t>(V), B * T);
  const auto wte = random.normal(V * C), wpe = random.normal(T * C), dout = random.normal(B * T * C),
             before = random.normal(V * C);
  const RunsOfTokens runs(tokens);
  return {shape("encoder B,T,C,V", B, T, C, V), [=](DeviceOps& ops) -> std::vector<Output> {
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
  return {shape("layernorm N,C,x", N, C, with_addend), [=](DeviceOps& ops) -> std::vector<Output> {
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
  return {shape("matmul N,IC,OC,gelu", N, IC, OC, gelu), [=](DeviceOps& ops) -> std::vector<Output> {
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
  return {shape("drop N,C", N, C), [=](DeviceOps& ops) -> std::vector<Output> {
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
  const Bound bound = dtype == DType::kFloat32 ? stored(dtype) : Bound{1.0 / 128, 4e-3};
  return {shape("attention B,T,C,NH,dropout", B, T, C, NH, probability), [=](DeviceOps& ops) -> std::vector<Output> {
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

// The rows of dwte in groups; whole where the op set has no groups.
void dwte_by_rows(DeviceOps& ops, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                  int64_t V, float loss_scale, float* losses, Act* dx) {
  const int64_t unit = ops.head_rows();
  ops.head_loss_backward(losses, dx, unit == 0 ? dwte : nullptr, x, wte, targets, N, C, V, loss_scale);
  if (unit == 0) return;
  ops.head_loss(losses, x, wte, targets, N, C, V);  // as other ops come between, which use the same scratch
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
  return {shape("head N,C,V,scale", N, C, V, static_cast<int>(loss_scale)), [=](DeviceOps& ops) -> std::vector<Output> {
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

std::vector<double> maxima_of(DeviceOps& ops, const std::vector<DeviceOps::Floats>& of) {
  std::vector<float> largest(of.size(), -1.0F);
  ops.abs_maxima(largest.data(), of.data(), of.size());
  return {largest.begin(), largest.end()};
}

OpCase optimizer(RandomInputs& random, int64_t count) {
  const auto p = random.normal(count), g = random.normal(count), m = random.normal(count);
  auto v = random.normal(count);
  for (float& x : v) x = x * x;
  const AdamWStep step{3e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.271f, 0.142625f, 0.37f};
  return {shape("optimizer", count), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            auto parameters = p, first = m, second = v, averaged = p, momentum = m, difference = poisoned(count),
                 scaled = poisoned(count);
            ops.nesterov(on.of(averaged), on.of(momentum), on.of(g), count, {0.7f, 0.9f});
            ops.subtract(on.of(difference), on.of(p), on.of(g), count);
            ops.scale(on.of(scaled), on.of(p), count, 0.3F);
            ops.adamw(on.of(parameters), on.of(first), on.of(second), on.of(g), count, step);
            on.fetch();
            return {{"parameters", kExact, values(parameters)},
                    {"m", kExact, values(first)},
                    {"v", kExact, values(second)},
                    {"parameters after a Nesterov step", kExact, values(averaged)},
                    {"momentum", kExact, values(momentum)},
                    {"difference", kExact, values(difference)},
                    {"scaled", kExact, values(scaled)},
                    {"sum of squares", {1e-12, 0}, {ops.sum_of_squares(on.of(g), count)}},
                    {"largest", kExact, maxima_of(ops, {{on.of(g), count}, {on.of(p), count / 2}, {on.of(g), 0}})},
                    {"sum", {0, 1e-9 * static_cast<double>(count)}, {ops.sum(on.of(g), count)}}};
          }};
}

// Ranges of so many elements, one after the other. The last but one has elements that are not finite, where there are two.
OpCase sums_of_squares(RandomInputs& random, const std::vector<int64_t>& counts) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  auto x = random.normal(total);
  if (counts.size() > 1 && counts[counts.size() - 2] > 1) {
    const size_t end = x.size() - static_cast<size_t>(counts.back());
    x[end - 1] = kNan;
    x[end - 2] = INFINITY;
  }
  return {shape("sums_of_squares ranges,elements", counts.size(), total), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            std::vector<DeviceOps::Floats> of;
            const float* next = on.of(x);
            for (const int64_t count : counts) {
              of.push_back({count == 0 ? nullptr : next, count});
              next += count;
            }
            std::vector<double> sums(counts.size(), kNan);
            ops.sums_of_squares(sums.data(), of.data(), of.size());
            double others = 0;
            for (size_t i = 0; i < of.size(); ++i) {
              const double alone = ops.sum_of_squares(of[i].x, of[i].count);
              if (std::memcmp(&sums[i], &alone, sizeof alone) != 0) ++others;
              if (!std::isfinite(sums[i])) sums[i] = INFINITY;  // NaN or not, as the sum went
            }
            return {{"sums", {1e-12, 0}, sums},
                    {"sums of other bits than that of the range alone", kExact, {others}},
                    {"largest", kExact, maxima_of(ops, of)}};
          }};
}

OpCase fixed_point(RandomInputs& random, int64_t count, int exponent) {
  const auto x = random.normal(count, std::ldexp(1.0f, 20 - exponent)),
             y = random.normal(count, std::ldexp(1.0f, 20 - exponent));
  return {shape("fixed point count,exponent", count, exponent), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            std::vector<int32_t> sums(static_cast<size_t>(count), 123456789);
            auto unpacked = poisoned(count), total = poisoned(count);
            ops.fixed_accumulate(on.of(sums), on.of(x), count, exponent, true);
            ops.fixed_accumulate(on.of(sums), on.of(y), count, exponent, false);
            ops.fixed_unpack(on.of(unpacked), on.of(sums), count, 0.3e-5f);
            ops.float_accumulate(on.of(total), on.of(x), count, true);
            ops.float_accumulate(on.of(total), on.of(y), count, false);
            std::vector<int16_t> short_sums(static_cast<size_t>(count), 12345);
            auto short_unpacked = poisoned(count);
            ops.fixed_accumulate(on.of(short_sums), on.of(x), count, exponent - 10, true);
            ops.fixed_accumulate(on.of(short_sums), on.of(y), count, exponent - 10, false);
            ops.fixed_unpack(on.of(short_unpacked), on.of(short_sums), count, 0.3e-3f);
            on.fetch();
            return {{"sums", kExact, {sums.begin(), sums.end()}},
                    {"unpacked", kExact, values(unpacked)},
                    {"int16 sums", kExact, {short_sums.begin(), short_sums.end()}},
                    {"int16 unpacked", kExact, values(short_unpacked)},
                    {"float sums", kExact, values(total)},
                    {"largest", kExact, {ops.abs_max(on.of(x), count)}}};
          }};
}

// Adds R of V rows, ascending and distinct, as the encoder's gradient has them.
OpCase add_rows(RandomInputs& random, int64_t V, int64_t R, int64_t C) {
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < R; ++r) ids.push_back(static_cast<int32_t>(r * V / R));
  const auto sums = random.normal(V * C, 1000.0f), rows = random.normal(R * C, 1000.0f);
  return {shape("add_rows V,R,C", V, R, C), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            auto floats = sums;
            std::vector<int32_t> integers(sums.begin(), sums.end());
            std::vector<int16_t> shorts(sums.begin(), sums.end());
            const std::vector<int32_t> integer_rows(rows.begin(), rows.end());
            const std::vector<int16_t> short_rows(rows.begin(), rows.end());
            ops.add_rows(on.of(floats), on.of(rows), on.of(ids), R, C);
            ops.add_rows(on.of(integers), on.of(integer_rows), on.of(ids), R, C);
            ops.add_rows(on.of(shorts), on.of(short_rows), on.of(ids), R, C);
            on.fetch();
            return {{"floats", kExact, values(floats)},
                    {"int32", kExact, {integers.begin(), integers.end()}},
                    {"int16", kExact, {shorts.begin(), shorts.end()}}};
          }};
}

OpCase cast(DType dtype, RandomInputs& random, int64_t count) {
  auto x = random.normal(count, 1e3f);
  x[0] = INFINITY;
  x[static_cast<size_t>(count / 2)] = 1e-40f;  // subnormal
  return {shape("cast", count), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor out(dtype, count);
            ops.cast(on.of(out), on.of(x), count);
            on.fetch();
            return {{"out", kExact, out.values()}};
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
  for (int count : {1, 7, 16, 1000, 70001}) {
    cases.push_back(optimizer(random, count));
    cases.push_back(cast(dtype, random, count));
  }
  std::vector<int64_t> two_thousand;
  for (int64_t i = 0; i < 2000; ++i) two_thousand.push_back(i * 7 % 38);
  for (const auto& counts :
       {std::vector<int64_t>{}, {0}, {0, 0}, {70001}, {0, 1, 0, 16384, 16385, 40000, 7, 0}, two_thousand}) {
    cases.push_back(sums_of_squares(random, counts));
  }
  for (const auto& [V, R, C] : {std::tuple{5, 0, 8}, {1, 1, 1}, {51, 7, 24}, {40, 40, 100}, {300, 97, 33}}) {
    cases.push_back(add_rows(random, V, R, C));
  }
  for (int exponent : {-60, -3, 0, 9, 31, 100}) cases.push_back(fixed_point(random, 70001, exponent));
  return cases;
}

std::vector<OpCase> large_cut_cases(DType dtype, RandomInputs& random, Bias bias) {
  return {matmul(dtype, random, 2048, 40, 2050, Epilogue::kGelu, bias),
          matmul(dtype, random, 2050, 2052, 40, Epilogue::kNone, bias),
          matmul(dtype, random, 72, 2048, 2050, Epilogue::kNone, bias), head(dtype, random, 300, 24, 33000, 256.0f)};
}

std::vector<OpCase> large_cases(DType dtype, RandomInputs& random) {
  return {encoder(random, 3, 100, 200, 77),
          layernorm(dtype, random, 1030, 96, true),
          matmul(dtype, random, 1030, 96, 1152, Epilogue::kGelu),
          matmul(dtype, random, 300, 1536, 384, Epilogue::kNone),
          matmul(dtype, random, 2048, 100, 33, Epilogue::kNone),
          attention(dtype, random, 3, 300, 96, 3),
          attention(dtype, random, 3, 300, 96, 3, 0.1),
          drop(dtype, random, 1500, 768),
          head(dtype, random, 1100, 24, 9001, 4096.0f),  // more rows than are kept at once
          optimizer(random, 300001),
          sums_of_squares(random, {1000, 300001, 0, 65536, 65536, 5}),
          add_rows(random, 900, 400, 200),
          fixed_point(random, 200001, 5),
          cast(dtype, random, 200001)};
}

}  // namespace holdfast::kernels::testing
