// Causal self-attention, plain: one row of scores at a time.
//   s[u] = q[t].k[u] / sqrt(HS) for u <= t;   p = softmax(s);   out[t] = sum over u of p[u] v[u]
// Backward (Dao et al. 2022, algorithm 4), with p from the stored logsumexp:
//   D = dout[t].out[t];   ds[u] = p[u] * (dout[t].v[u] - D);   dv[u] += p[u] dout[t];
// With dropout p[u] of the output and of dv is p[u] times its factor, and dout[t].v[u] is times that, too.
//   dq[t] = sum over u of ds[u] k[u] / sqrt(HS);   dk[u] += ds[u] q[t] / sqrt(HS)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/dropout.h"

namespace holdfast::kernels::ref {

// Where head h of sequence b keeps its rows in qkv (B, T, 3C) and out (B, T, C).
struct HeadLayout {
  int64_t T, C, HS;
  int64_t qkv(int64_t b, int64_t t, int64_t part, int64_t h) const { return (b * T + t) * 3 * C + part * C + h * HS; }
  int64_t out(int64_t b, int64_t t, int64_t h) const { return (b * T + t) * C + h * HS; }
};

template <typename Real, typename Element>
Real dot(const Element* a, const Element* b, int64_t count) {
  Real sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<Real>(a[i]) * static_cast<Real>(b[i]);
  return sum;
}

// Of a row's probabilities; one for all where nothing is dropped.
struct DropoutRow {
  Dropout dropout;
  uint64_t key = 0;
  float factor(int64_t column) const { return dropout.is_on() ? dropout_factor(dropout, key, column) : 1.0F; }
};

template <typename Real, typename Element>
void attention_forward(Element* out, Real* logsumexp, const Element* qkv, std::vector<Real>& scratch, int64_t B, int64_t T,
                       int64_t C, int64_t NH, const Dropout& dropout = {}, uint64_t pass = 0) {
  const HeadLayout at{T, C, C / NH};
  const Real scale = Real(1) / std::sqrt(static_cast<Real>(at.HS));
  scratch.resize(static_cast<size_t>(T));
  Real* p = scratch.data();  // (T): scores, then probabilities, of one row
  for (int64_t row = 0; row < B * NH * T; ++row) {
    const int64_t b = row / (NH * T), h = row / T % NH, t = row % T;
    Real largest = -INFINITY;
    for (int64_t u = 0; u <= t; ++u) {
      p[u] = dot<Real>(qkv + at.qkv(b, t, 0, h), qkv + at.qkv(b, u, 1, h), at.HS) * scale;
      largest = std::max(largest, p[u]);
    }
    Real sum = 0;
    for (int64_t u = 0; u <= t; ++u) sum += p[u] = std::exp(p[u] - largest);
    const DropoutRow drawn{dropout, dropout_row(pass, dropout.site, row)};
    for (int64_t u = 0; u <= t; ++u) p[u] *= static_cast<Real>(drawn.factor(u));
    for (int64_t i = 0; i < at.HS; ++i) {
      Real y = 0;
      for (int64_t u = 0; u <= t; ++u) y += p[u] * static_cast<Real>(qkv[at.qkv(b, u, 2, h) + i]);
      out[at.out(b, t, h) + i] = static_cast<Element>(y / sum);
    }
    logsumexp[row] = largest + std::log(sum);
  }
}

template <typename Real, typename Element>
void attention_backward(Element* dqkv, const Element* dout, const Element* qkv, const Element* out, const Real* logsumexp,
                        std::vector<Real>& scratch, int64_t B, int64_t T, int64_t C, int64_t NH, const Dropout& dropout = {},
                        uint64_t pass = 0) {
  const HeadLayout at{T, C, C / NH};
  const Real scale = Real(1) / std::sqrt(static_cast<Real>(at.HS));
  scratch.assign(static_cast<size_t>(3 * T * at.HS), Real(0));
  for (int64_t head = 0; head < B * NH; ++head) {
    const int64_t b = head / NH, h = head % NH;
    std::fill(scratch.begin(), scratch.end(), Real(0));
    Real *dq = scratch.data(), *dk = dq + T * at.HS, *dv = dk + T * at.HS;  // (T, HS) each
    for (int64_t t = 0; t < T; ++t) {
      const Element* dy = dout + at.out(b, t, h);
      const Element* q = qkv + at.qkv(b, t, 0, h);
      const Real D = dot<Real>(dy, out + at.out(b, t, h), at.HS);
      const DropoutRow drawn{dropout, dropout_row(pass, dropout.site, head * T + t)};
      for (int64_t u = 0; u <= t; ++u) {
        const Element* k = qkv + at.qkv(b, u, 1, h);
        const Real p = std::exp(dot<Real>(q, k, at.HS) * scale - logsumexp[head * T + t]);
        const Real factor = static_cast<Real>(drawn.factor(u));
        const Real ds = p * (factor * dot<Real>(dy, qkv + at.qkv(b, u, 2, h), at.HS) - D) * scale;
        for (int64_t i = 0; i < at.HS; ++i) {
          dq[t * at.HS + i] += ds * static_cast<Real>(k[i]);
          dk[u * at.HS + i] += ds * static_cast<Real>(q[i]);
          dv[u * at.HS + i] += factor * p * static_cast<Real>(dy[i]);
        }
      }
    }
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t i = 0; i < at.HS; ++i) {
          dqkv[at.qkv(b, t, part, h) + i] = static_cast<Element>(scratch[(part * T + t) * at.HS + i]);
        }
      }
    }
  }
}

}  // namespace holdfast::kernels::ref
