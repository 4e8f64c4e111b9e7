// The forward pass with kept keys and values, plain: one row at a time. Formulas in encoder.h, matmul.h, attention.h and
// head.h. A page has keys (kPageTokens, C), then values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/decode_ops.h"
#include "kernels/int4.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/encoder.h"
#include "kernels/ref/head.h"
#include "kernels/ref/matmul.h"

namespace holdfast::kernels::ref {

template <typename E>
class Decode : public DecodeOps {
 public:
  struct Matrix final : Weight {
    std::vector<E> values;
    int64_t OC, IC;
    Matrix(const E* from, int64_t outer, int64_t inner) : values(from, from + outer * inner), OC(outer), IC(inner) {}
    size_t bytes() const override { return values.size() * sizeof(E); }
  };

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override {
    return std::make_unique<Matrix>(as(weight), OC, IC);
  }
  void embed(float* out, const int32_t* tokens, const int32_t* positions, const Act* wte, const float* wpe, int64_t N,
             int64_t C) override {
    for (int64_t n = 0; n < N; ++n) encoder_forward(out + n * C, tokens + n, as(wte), wpe + positions[n] * C, 1, 1, C);
  }
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override {
    const auto& w = static_cast<const Matrix&>(weight);
    std::vector<E> before_gelu(static_cast<size_t>(N * w.OC));
    matmul_forward(as(out), before_gelu.data(), as(in), w.values.data(), bias, epilogue, N, w.IC, w.OC);
  }

  size_t page_bytes(int64_t C, int64_t) const override { return static_cast<size_t>(2 * kPageTokens * C) * sizeof(E); }
  void attention(Act* out, std::byte* pages, const Act* qkv, std::span<const SequenceRows> sequences, int64_t, int64_t C,
                 int64_t NH) override {
    const auto row_of = [&](const SequenceRows& rows, int64_t t, int64_t part) {
      auto* const page = reinterpret_cast<E*>(pages) + rows.pages[t / kPageTokens] * 2 * kPageTokens * C;
      return page + (part * kPageTokens + t % kPageTokens) * C;
    };
    std::vector<E> together, all;  // (positions, 3C) and (positions, C) of one sequence
    std::vector<float> logsumexp;
    for (const SequenceRows& rows : sequences) {
      const int64_t T = rows.position + rows.count;
      const E* const mine = as(qkv) + rows.first_row * 3 * C;
      together.assign(static_cast<size_t>(T * 3 * C), E(0.0F));
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t part = 0; part < 2; ++part) {
          E* const kept = row_of(rows, t, part);
          if (t >= rows.position) std::copy_n(mine + (t - rows.position) * 3 * C + (1 + part) * C, C, kept);
          std::copy_n(kept, C, together.data() + t * 3 * C + (1 + part) * C);
        }
        if (t >= rows.position) std::copy_n(mine + (t - rows.position) * 3 * C, C, together.data() + t * 3 * C);
      }
      all.resize(static_cast<size_t>(T * C));
      logsumexp.resize(static_cast<size_t>(T * NH));
      attention_forward(all.data(), logsumexp.data(), together.data(), scratch_, 1, T, C, NH);
      std::copy_n(all.data() + rows.position * C, rows.count * C, as(out) + rows.first_row * C);
    }
  }

  void copy(std::byte* to, const std::byte* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override {
    const auto& w = static_cast<const Matrix&>(wte);
    head_logits(logits, as(x), w.values.data(), N, w.IC, w.OC);
  }
  void token_losses(float* host_losses, const float* logits, const int32_t* host_ids, int64_t N, int64_t K,
                    int64_t V) override {
    for (int64_t i = 0; i < N * K; ++i) host_losses[i] = log_sum_exp(logits + i / K * V, V) - logits[i / K * V + host_ids[i]];
  }

 protected:
  static E* as(Act* x) { return reinterpret_cast<E*>(x); }
  static const E* as(const Act* x) { return reinterpret_cast<const E*>(x); }

 private:
  std::vector<float> scratch_;
};

// With weights of int8: WeightForm::kInt8.
template <typename E>
class Int8Decode final : public Decode<E> {
 public:
  using Weight = DecodeOps::Weight;
  struct Rows final : Weight {
    std::vector<int8_t> numbers;
    std::vector<float> scales;
    int64_t IC;
    Rows(const E* from, int64_t rows, int64_t inner)
        : numbers(static_cast<size_t>(rows * inner)), scales(static_cast<size_t>(rows)), IC(inner) {
      for (int64_t r = 0; r < rows; ++r) {
        float most = 0.0F;
        for (int64_t i = 0; i < IC; ++i) {
          const float magnitude = std::fabs(static_cast<float>(from[r * IC + i]));
          if (!(magnitude <= most)) most = magnitude;
          if (std::isnan(magnitude)) break;
        }
        float& scale = scales[static_cast<size_t>(r)];
        if (!std::isfinite(most)) scale = std::numeric_limits<float>::quiet_NaN();
        if (!std::isfinite(most) || most < kLeastInt8) continue;
        scale = most / 127.0F;
        for (int64_t i = 0; i < IC; ++i)
          numbers[static_cast<size_t>(r * IC + i)] =
              static_cast<int8_t>(std::nearbyint(static_cast<float>(from[r * IC + i]) * (127.0F / most)));
      }
    }
    size_t bytes() const override { return numbers.size() + scales.size() * sizeof(float); }
    float product(int64_t r, const Rows& in, int64_t n) const {
      int32_t sum = 0;
      for (int64_t i = 0; i < IC; ++i)
        sum += numbers[static_cast<size_t>(r * IC + i)] * in.numbers[static_cast<size_t>(n * IC + i)];
      return static_cast<float>(sum) * (in.scales[static_cast<size_t>(n)] * scales[static_cast<size_t>(r)]);
    }
  };

  std::unique_ptr<Weight> keep(const Act* weight, int64_t OC, int64_t IC) override {
    return std::make_unique<Rows>(this->as(weight), OC, IC);
  }
  void linear(Act* out, const Act* in, const Weight& weight, const float* bias, Epilogue epilogue, int64_t N) override {
    const auto& w = static_cast<const Rows&>(weight);
    const Rows rows(this->as(in), N, w.IC);
    const auto OC = static_cast<int64_t>(w.scales.size());
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t o = 0; o < OC; ++o) {
        const E sum = static_cast<E>(w.product(o, rows, n) + bias[o]);
        this->as(out)[n * OC + o] = epilogue == Epilogue::kGelu ? static_cast<E>(gelu(static_cast<float>(sum))) : sum;
      }
    }
  }
  void logits(float* logits, const Act* x, const Weight& wte, int64_t N) override {
    const auto& w = static_cast<const Rows&>(wte);
    const Rows rows(this->as(x), N, w.IC);
    const auto V = static_cast<int64_t>(w.scales.size());
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t v = 0; v < V; ++v) logits[n * V + v] = w.product(v, rows, n);
    }
  }
};

// With weights of 4 bits: WeightForm::kInt4. They are kept as what they mean.
template <typename E>
class Int4Decode final : public Decode<E> {
 public:
  using Matrix = typename Decode<E>::Matrix;

  std::unique_ptr<DecodeOps::Weight> keep(const Act* weight, int64_t OC, int64_t IC) override {
    auto kept = std::make_unique<Matrix>(this->as(weight), OC, IC);
    float numbers[kInt4Group];
    for (int64_t r = 0; r < OC; ++r) {
      for (int64_t first = 0; first < IC; first += kInt4Group) {
        E* const values = kept->values.data() + r * IC + first;
        const int64_t count = std::min(kInt4Group, IC - first);
        std::copy_n(values, count, numbers);
        const Int4Group group = to_int4(numbers, count);
        from_int4(numbers, &group, 1);
        std::copy_n(numbers, count, values);
      }
    }
    return kept;
  }
};

}  // namespace holdfast::kernels::ref
