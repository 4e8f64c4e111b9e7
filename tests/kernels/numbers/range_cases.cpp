// The cases of range_cases.h. A case captures its inputs by value; its outputs live for one run.
#include "tests/kernels/numbers/range_cases.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/act_tensor.h"
#include "tests/kernels/on_device.h"

namespace holdfast::kernels::testing {
namespace {

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
  return {case_name("optimizer", count), [=](DeviceOps& ops) -> std::vector<Output> {
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
    x[end - 1] = std::numeric_limits<float>::quiet_NaN();
    x[end - 2] = INFINITY;
  }
  return {case_name("sums_of_squares ranges,elements", counts.size(), total), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            std::vector<DeviceOps::Floats> of;
            const float* next = on.of(x);
            for (const int64_t count : counts) {
              of.push_back({count == 0 ? nullptr : next, count});
              next += count;
            }
            std::vector<double> sums(counts.size(), std::numeric_limits<float>::quiet_NaN());
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
  return {case_name("fixed point count,exponent", count, exponent), [=](DeviceOps& ops) -> std::vector<Output> {
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
  return {case_name("add_rows V,R,C", V, R, C), [=](DeviceOps& ops) -> std::vector<Output> {
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
  return {case_name("cast", count), [=](DeviceOps& ops) -> std::vector<Output> {
            OnDevice on(ops);
            ActTensor out(dtype, count);
            ops.cast(on.of(out), on.of(x), count);
            on.fetch();
            return {{"out", kExact, out.values()}};
          }};
}

}  // namespace

std::vector<OpCase> small_range_cases(DType dtype, RandomInputs& random) {
  std::vector<OpCase> cases;
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

std::vector<OpCase> large_range_cases(DType dtype, RandomInputs& random) {
  return {optimizer(random, 300001), sums_of_squares(random, {1000, 300001, 0, 65536, 65536, 5}),
          add_rows(random, 900, 400, 200), fixed_point(random, 200001, 5), cast(dtype, random, 200001)};
}

}  // namespace holdfast::kernels::testing
