// The cases of cases.h. Rows come in calls whose sizes are drawn, and sequences lie in pages that are drawn, too.
#include "tests/kernels/decode/cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/int4.h"
#include "tests/kernels/on_device.h"

namespace holdfast::kernels::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int64_t draw(RandomInputs& random, int64_t below) {
  return random.below(static_cast<int32_t>(below), 1).front();
}

// Calls call(first, count) for pieces of `rows` rows, many of them of a single row.
template <typename Call>
void in_pieces(RandomInputs& random, int64_t rows, const Call& call) {
  for (int64_t first = 0; first < rows;) {
    const int64_t count = std::min(rows - first, draw(random, 3) == 0 ? 1 + draw(random, 70) : 1);
    call(first, count);
    first += count;
  }
}

struct RowsOfDType {
  size_t bytes;  // of a row
  RowsOfDType(DType dtype, int64_t width) : bytes(static_cast<size_t>(width) * dtype_size(dtype)) {}
  template <typename T>
  T* at(T* x, int64_t row) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(x) + static_cast<size_t>(row) * bytes);
  }
};

template <typename T>
void expect_same_bits(const std::string& name, const T* found, const T* expected, size_t count, int64_t width) {
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(std::memcmp(found + i, expected + i, sizeof(T)), 0)
        << name << ": row " << i / static_cast<size_t>(width) << ", column " << i % static_cast<size_t>(width);
  }
}
void expect_same_bits(const std::string& name, const ActTensor& found, const ActTensor& expected, int64_t width) {
  const auto bytes = [](const ActTensor& x) { return reinterpret_cast<const std::byte*>(x.act()); };
  const auto element = static_cast<int64_t>(expected.bytes() / expected.values().size());
  expect_same_bits(name, bytes(found), bytes(expected), expected.bytes(), width * element);
}
void expect_same_bits(const std::string& name, const std::vector<float>& found, const std::vector<float>& expected,
                      int64_t width) {
  expect_same_bits(name, found.data(), expected.data(), expected.size(), width);
}

// B sequences of T tokens each.
struct Sequences {
  int64_t B, T, C, NH;
};

// Attention to sequences whose rows qkv (B, T, 3C) come in passes, each with some of the sequences; a page moves now and then.
ActTensor attention_in_passes(DeviceOps& ops, DecodeOps& decode, RandomInputs& random, const ActTensor& qkv,
                              const Sequences& s) {
  const DType dtype = ops.activation_dtype();
  const int64_t pages_of_each = (s.T + kPageTokens - 1) / kPageTokens, pages = s.B * pages_of_each + 2;
  const size_t page_bytes = decode.page_bytes(s.C, s.NH);
  auto* const memory = static_cast<std::byte*>(ops.allocate(static_cast<size_t>(pages) * page_bytes));
  std::vector<int32_t> free(static_cast<size_t>(pages));
  std::iota(free.begin(), free.end(), 0);
  const auto take_page = [&] {
    std::swap(free.back(), free[static_cast<size_t>(draw(random, static_cast<int64_t>(free.size())))]);
    const int32_t page = free.back();
    free.pop_back();
    return page;
  };
  struct Sequence {
    int64_t fed = 0;
    std::vector<int32_t> pages;
  };
  std::vector<Sequence> sequences(static_cast<size_t>(s.B));
  ActTensor out(dtype, s.B * s.T * s.C), call_qkv(dtype, s.B * s.T * 3 * s.C), call_out(dtype, s.B * s.T * s.C);
  const RowsOfDType wide(dtype, 3 * s.C), narrow(dtype, s.C);
  OnDevice on(ops);
  const auto copy = [&](const RowsOfDType& rows, Act* to, int64_t to_row, const Act* from, int64_t from_row, int64_t count) {
    decode.copy(reinterpret_cast<std::byte*>(rows.at(to, to_row)), reinterpret_cast<const std::byte*>(rows.at(from, from_row)),
                static_cast<size_t>(count) * rows.bytes);
  };
  for (int64_t left = s.B * s.T; left > 0;) {
    std::vector<SequenceRows> call;
    std::vector<int64_t> places;  // of the call's sequences: their first rows in qkv
    int64_t N = 0;
    for (int64_t b = 0; b < s.B; ++b) {
      Sequence& one = sequences[static_cast<size_t>(b)];
      const int64_t count = std::min(s.T - one.fed, draw(random, 3) == 0 ? 1 + draw(random, 70) : draw(random, 2));
      if (count == 0) continue;
      if (!one.pages.empty() && draw(random, 3) == 0) {
        int32_t& page = one.pages[static_cast<size_t>(draw(random, static_cast<int64_t>(one.pages.size())))];
        const int32_t other = take_page();
        decode.copy(memory + static_cast<size_t>(other) * page_bytes, memory + static_cast<size_t>(page) * page_bytes,
                    page_bytes);
        free.push_back(std::exchange(page, other));
      }
      while (static_cast<int64_t>(one.pages.size()) * kPageTokens < one.fed + count) one.pages.push_back(take_page());
      places.push_back(b * s.T + one.fed);
      call.push_back({N, count, one.fed, one.pages.data()});
      copy(wide, on.of(call_qkv), N, on.of(qkv), places.back(), count);
      N += count;
      one.fed += count;
    }
    if (call.empty()) continue;
    decode.attention(on.of(call_out), memory, on.of(call_qkv), call, s.T, s.C, s.NH);
    for (size_t i = 0; i < call.size(); ++i)
      copy(narrow, on.of(out), places[i], on.of(call_out), call[i].first_row, call[i].count);
    left -= N;
  }
  on.fetch();
  ops.release(memory);
  return out;
}

OpCase products(DType dtype, RandomInputs& random, WeightForm form, int64_t N, int64_t IC, int64_t OC, Epilogue epilogue) {
  const ActTensor in(dtype, random.normal(N * IC));
  const ActTensor weight(dtype, random.normal(OC * IC, 1.0F / std::sqrt(static_cast<float>(IC))));
  const auto bias = random.normal(OC);
  const bool gelu = epilogue == Epilogue::kGelu;
  const std::string name = std::string(form == WeightForm::kInt8   ? "decode, int8"
                                       : form == WeightForm::kInt4 ? "decode, int4"
                                                                   : "decode") +
                           ": linear " + std::to_string(N) + " x " + std::to_string(IC) + " x " + std::to_string(OC) +
                           (gelu ? ", gelu" : "");
  return {name, [=](DeviceOps& ops) -> std::vector<Output> {
            const auto decode = ops.make_decode_ops(form);
            OnDevice on(ops);
            ActTensor out(dtype, N * OC);
            auto logits = poisoned(N * OC);
            const auto kept = decode->keep(on.of(weight), OC, IC);
            decode->linear(on.of(out), on.of(in), *kept, on.of(bias), epilogue, N);
            decode->logits(on.of(logits), on.of(in), *kept, N);
            on.fetch();
            return {{"out", gelu ? stored_twice(dtype) : stored(dtype), out.values()}, {"logits", kFloatSum, values(logits)}};
          }};
}

OpCase embedding_and_losses(DType dtype, RandomInputs& random, int64_t N, int64_t C, int64_t V, int64_t K) {
  const auto tokens = random.below(static_cast<int32_t>(V), N), positions = random.below(40, N),
             ids = random.below(static_cast<int32_t>(V), N * K);
  const auto wpe = random.normal(40 * C), logits = random.normal(N * V, 4.0F);
  const ActTensor wte(dtype, random.normal(V * C));
  return {"decode: embed and token_losses, N " + std::to_string(N) + ", V " + std::to_string(V),
          [=](DeviceOps& ops) -> std::vector<Output> {
            const auto decode = ops.make_decode_ops(WeightForm::kActivations);
            OnDevice on(ops);
            auto out = poisoned(N * C), losses = poisoned(N * K);
            decode->embed(on.of(out), tokens.data(), positions.data(), on.of(wte), on.of(wpe), N, C);
            decode->token_losses(losses.data(), on.of(logits), ids.data(), N, K, V);
            on.fetch();
            return {{"out", kExact, values(out)}, {"losses", kFloatSum, values(losses)}};
          }};
}

OpCase attention(DType dtype, RandomInputs& random, const Sequences& s) {
  const ActTensor qkv(dtype, random.normal(s.B * s.T * 3 * s.C, 1.5F));
  const auto seed = static_cast<uint64_t>(draw(random, 1 << 30));
  const Bound bound = dtype == DType::kFloat32 ? stored(dtype) : Bound{1.0 / 128, 4e-3};  // as that of a forward pass
  return {"decode: attention B,T,C,NH " + std::to_string(s.B) + " " + std::to_string(s.T) + " " + std::to_string(s.C) + " " +
              std::to_string(s.NH),
          [=](DeviceOps& ops) -> std::vector<Output> {
            const auto decode = ops.make_decode_ops(WeightForm::kActivations);
            RandomInputs drawn(seed);
            return {{"out", bound, attention_in_passes(ops, *decode, drawn, qkv, s).values()}};
          }};
}

void expect_embedding_of_forward(DeviceOps& ops, DecodeOps& decode, RandomInputs& random) {
  constexpr int64_t B = 2, T = 33, C = 20, V = 51, N = B * T;
  const ActTensor wte(ops.activation_dtype(), random.normal(V * C));
  const auto wpe = random.normal(T * C);
  const auto tokens = random.below(V, N);
  std::vector<int32_t> positions;
  for (int64_t n = 0; n < N; ++n) positions.push_back(static_cast<int32_t>(n % T));
  auto expected = poisoned(N * C), found = expected;
  OnDevice on(ops);
  ops.encoder_forward(on.of(expected), on.of(tokens), on.of(wte), on.of(wpe), B, T, C);
  in_pieces(random, N, [&](int64_t first, int64_t count) {
    decode.embed(on.of(found) + first * C, tokens.data() + first, positions.data() + first, on.of(wte), on.of(wpe), count, C);
  });
  on.fetch();
  expect_same_bits("embed", found, expected, C);
}

void expect_products_of_forward(DeviceOps& ops, DecodeOps& decode, RandomInputs& random, int64_t N, int64_t IC, int64_t OC,
                                Epilogue epilogue) {
  const DType dtype = ops.activation_dtype();
  const ActTensor in(dtype, random.normal(N * IC)), weight(dtype, random.normal(OC * IC, 0.1F));
  const auto bias = random.normal(OC);
  ActTensor expected(dtype, N * OC), found(dtype, N * OC), pre_gelu(dtype, N * OC);
  const RowsOfDType rows_in(dtype, IC), rows_out(dtype, OC);
  OnDevice on(ops);
  const auto kept = decode.keep(on.of(weight), OC, IC);
  if (has_library_products(ops)) {
    decode.linear(on.of(expected), on.of(in), *kept, on.of(bias), epilogue, N);
  } else {
    ops.matmul_forward(on.of(expected), epilogue == Epilogue::kGelu ? on.of(pre_gelu) : nullptr, on.of(in), on.of(weight),
                       on.of(bias), epilogue, N, IC, OC);
  }
  in_pieces(random, N, [&](int64_t first, int64_t count) {
    decode.linear(rows_out.at(on.of(found), first), rows_in.at(on.of(in), first), *kept, on.of(bias), epilogue, count);
  });
  on.fetch();
  expect_same_bits("linear", found, expected, OC);
}

void expect_head_of_forward(DeviceOps& ops, DecodeOps& decode, RandomInputs& random, int64_t N, int64_t C, int64_t V) {
  constexpr int64_t K = 3;
  const DType dtype = ops.activation_dtype();
  const ActTensor x(dtype, random.normal(N * C)), wte(dtype, random.normal(V * C, 0.5F));
  const auto targets = random.below(static_cast<int32_t>(V), N);
  auto ids = random.below(static_cast<int32_t>(V), N * K);
  for (int64_t n = 0; n < N; ++n) ids[static_cast<size_t>(n * K + n % K)] = targets[static_cast<size_t>(n)];
  auto expected = poisoned(N * V), found = expected, expected_losses = poisoned(N), losses = poisoned(N * K),
       of_targets = poisoned(N);
  const RowsOfDType rows(dtype, C);
  OnDevice on(ops);
  const auto kept = decode.keep(on.of(wte), V, C);
  decode.logits(on.of(expected), on.of(x), *kept, N);
  ops.head_loss(on.of(expected_losses), on.of(x), on.of(wte), on.of(targets), N, C, V);
  in_pieces(random, N, [&](int64_t first, int64_t count) {
    decode.logits(on.of(found) + first * V, rows.at(on.of(x), first), *kept, count);
    decode.token_losses(losses.data() + first * K, on.of(found) + first * V, ids.data() + first * K, count, K, V);
  });
  on.fetch();
  expect_same_bits("logits", found, expected, V);
  if (has_library_products(ops)) return;
  for (int64_t n = 0; n < N; ++n) of_targets[static_cast<size_t>(n)] = losses[static_cast<size_t>(n * K + n % K)];
  expect_same_bits("losses", of_targets, expected_losses, 1);
}

void expect_attention_of_forward(DeviceOps& ops, DecodeOps& decode, RandomInputs& random, const Sequences& s) {
  const DType dtype = ops.activation_dtype();
  const ActTensor qkv(dtype, random.normal(s.B * s.T * 3 * s.C, 1.5F));
  ActTensor expected(dtype, s.B * s.T * s.C);
  auto logsumexp = poisoned(s.B * s.NH * s.T);
  {
    OnDevice on(ops);
    ops.attention_forward(on.of(expected), on.of(logsumexp), on.of(qkv), s.B, s.T, s.C, s.NH, {});
    on.fetch();
  }
  expect_same_bits("attention", attention_in_passes(ops, decode, random, qkv, s), expected, s.C);
}

std::vector<double> products_of(DeviceOps& ops, WeightForm form, const ActTensor& in, const ActTensor& weight,
                                const std::vector<float>& bias, int64_t N, int64_t IC, int64_t OC) {
  const auto decode = ops.make_decode_ops(form);
  ActTensor out(ops.activation_dtype(), N * OC);
  auto logits = poisoned(N * OC);
  OnDevice on(ops);
  const auto kept = decode->keep(on.of(weight), OC, IC);
  decode->linear(on.of(out), on.of(in), *kept, on.of(bias), Epilogue::kNone, N);
  decode->logits(on.of(logits), on.of(in), *kept, N);
  on.fetch();
  std::vector<double> all = out.values();
  all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

}  // namespace

std::vector<OpCase> decode_cases(DType dtype, RandomInputs& random) {
  std::vector<OpCase> cases;
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kGelu}) {
    for (const WeightForm form : {WeightForm::kActivations, WeightForm::kInt8, WeightForm::kInt4}) {
      cases.push_back(products(dtype, random, form, 1, 24, 17, epilogue));
      cases.push_back(products(dtype, random, form, 70, 100, 130, epilogue));
    }
  }
  cases.push_back(embedding_and_losses(dtype, random, 1, 8, 5, 1));
  cases.push_back(embedding_and_losses(dtype, random, 9, 20, 1101, 3));
  cases.push_back(attention(dtype, random, {1, 40, 16, 1}));
  cases.push_back(attention(dtype, random, {2, 133, 48, 2}));
  return cases;
}

void expect_rows_of_a_forward_pass(DeviceOps& ops) {
  RandomInputs random;
  SCOPED_TRACE(random.how_to_repeat() + ", " + dtype_name(ops.activation_dtype()));
  const auto decode = ops.make_decode_ops(WeightForm::kActivations);
  ASSERT_NE(decode, nullptr);
  expect_embedding_of_forward(ops, *decode, random);
  for (const auto& [N, IC, OC] : {std::tuple{1, 8, 3}, {70, 100, 130}, {150, 72, 600}}) {
    expect_products_of_forward(ops, *decode, random, N, IC, OC, Epilogue::kNone);
    expect_products_of_forward(ops, *decode, random, N, IC, OC, Epilogue::kGelu);
  }
  for (const auto& [N, C, V] : {std::tuple{1, 8, 5}, {70, 24, 513}, {30, 40, 4200}})
    expect_head_of_forward(ops, *decode, random, N, C, V);
  // Heads of every width of tiles; of 10 channels, which begin anywhere; more tokens than two tiles of queries.
  for (const Sequences& s :
       {Sequences{1, 1, 8, 1}, {3, 150, 48, 2}, {2, 70, 20, 2}, {2, 130, 64, 1}, {1, 70, 96, 1}, {1, 40, 256, 2}})
    expect_attention_of_forward(ops, *decode, random, s);
}

// Of rows of zeros, rows that are nearly that, and one that is infinite. Sums of whole numbers have one value, so that these
// products have the judge's bits.
void expect_int8_products_of_ref(DeviceOps& ops) {
  struct Sizes {
    int64_t N, IC, OC;
  };
  RandomInputs random;
  const DType dtype = ops.activation_dtype();
  SCOPED_TRACE(random.how_to_repeat() + ", " + dtype_name(dtype));
  const auto judge = make_ref_ops(dtype);
  for (const Sizes& s : {Sizes{1, 70, 5}, {2, 64, 3}, {7, 768, 130}, {9, 24, 1}, {300, 100, 257}}) {
    std::vector<float> x = random.normal(s.N * s.IC), w = random.normal(s.OC * s.IC, 0.05F);
    std::fill_n(w.begin(), s.IC, 0.0F);
    x[0] = 100.0F;
    if (s.N > 2) {
      std::fill_n(x.begin() + s.IC, s.IC, 1e-35F);
      x[static_cast<size_t>(2 * s.IC)] = std::numeric_limits<float>::infinity();
    }
    if (s.N > 3) x[static_cast<size_t>(3 * s.IC + 5)] = kNan;
    const ActTensor in(dtype, x), weight(dtype, w);
    const std::vector<float> bias = random.normal(s.OC);
    const std::vector<double> expected = products_of(*judge, WeightForm::kInt8, in, weight, bias, s.N, s.IC, s.OC),
                              found = products_of(ops, WeightForm::kInt8, in, weight, bias, s.N, s.IC, s.OC);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << found[i] << " at " << i << ", expected " << expected[i] << "; " << s.N << " x " << s.IC << " x " << s.OC;
    }
  }
}

// The weights mean numbers, and with these as weights the products have the same bits.
void expect_int4_products_of_what_they_mean(DeviceOps& ops) {
  struct Sizes {
    int64_t N, IC, OC;
  };
  RandomInputs random;
  const DType dtype = ops.activation_dtype();
  SCOPED_TRACE(random.how_to_repeat() + ", " + dtype_name(dtype));
  for (const Sizes& s : {Sizes{1, 70, 5}, {2, 64, 3}, {7, 768, 130}, {9, 24, 1}, {300, 100, 257}}) {
    std::vector<float> w = random.normal(s.OC * s.IC, 0.05F), meant(w.size());
    std::fill_n(w.begin(), std::min(s.IC, kInt4Group), 1e-35F);
    const ActTensor in(dtype, random.normal(s.N * s.IC)), weight(dtype, w);
    const std::vector<double> kept = weight.values();
    std::transform(kept.begin(), kept.end(), w.begin(), [](double value) { return static_cast<float>(value); });
    for (int64_t r = 0; r < s.OC; ++r) {
      for (int64_t first = 0; first < s.IC; first += kInt4Group) {
        const int64_t at = r * s.IC + first, count = std::min(kInt4Group, s.IC - first);
        float numbers[kInt4Group];
        const Int4Group group = to_int4(w.data() + at, count);
        from_int4(numbers, &group, 1);
        std::copy_n(numbers, count, meant.begin() + at);
      }
    }
    const std::vector<float> bias = random.normal(s.OC);
    ASSERT_EQ(products_of(ops, WeightForm::kInt4, in, weight, bias, s.N, s.IC, s.OC),
              products_of(ops, WeightForm::kActivations, in, ActTensor(dtype, meant), bias, s.N, s.IC, s.OC))
        << s.N << " x " << s.IC << " x " << s.OC;
  }
}

}  // namespace holdfast::kernels::testing
