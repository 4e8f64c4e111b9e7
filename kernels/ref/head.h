// The tied head and its cross-entropy, plain: one row of logits at a time.
//   logits[v] = x.wte[v];   loss = logsumexp(logits) - logits[target];   dlogits = (softmax(logits) - onehot(target)) scale / N
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace holdfast::kernels::ref {

template <typename Real, typename Element>
void head_logits(Real* logits, const Element* x, const Element* wte, int64_t rows, int64_t C, int64_t V) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t v = 0; v < V; ++v) {
      Real sum = 0;
      for (int64_t c = 0; c < C; ++c) sum += static_cast<Real>(x[n * C + c]) * static_cast<Real>(wte[v * C + c]);
      logits[n * V + v] = sum;
    }
  }
}

template <typename Real>
Real log_sum_exp(const Real* x, int64_t count) {
  const Real largest = *std::max_element(x, x + count);
  Real sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}

template <typename Real, typename Element>
void head_loss(Real* losses, const Element* x, const Element* wte, const int32_t* targets, std::vector<Real>& scratch,
               int64_t N, int64_t C, int64_t V) {
  scratch.resize(static_cast<size_t>(V));
  for (int64_t n = 0; n < N; ++n) {
    head_logits(scratch.data(), x + n * C, wte, 1, C, V);
    losses[n] = log_sum_exp(scratch.data(), V) - scratch[static_cast<size_t>(targets[n])];
  }
}

// The gradient of row n's logits, as it is stored, in place of these. Returns the row's loss.
template <typename Real, typename Element>
Real dlogits_in_place(Real* logits, int32_t target, int64_t N, int64_t V, Real scale) {
  const Real normalizer = log_sum_exp(logits, V);
  const Real loss = normalizer - logits[target];
  for (int64_t v = 0; v < V; ++v) {
    const Real d = (std::exp(logits[v] - normalizer) - Real(v == target ? 1 : 0)) * scale / static_cast<Real>(N);
    logits[v] = static_cast<Real>(static_cast<Element>(d));  // an activation gradient is stored as an activation
  }
  return loss;
}

// Rows of dwte from `first` on: dwte (rows, C).
template <typename Real, typename Element>
void head_rows_backward(Real* dwte, int64_t first, int64_t rows, const Element* x, const Element* wte, const int32_t* targets,
                        std::vector<Real>& scratch, int64_t N, int64_t C, int64_t V, Real scale) {
  scratch.resize(static_cast<size_t>(V));
  std::fill(dwte, dwte + rows * C, Real(0));
  for (int64_t n = 0; n < N; ++n) {
    head_logits(scratch.data(), x + n * C, wte, 1, C, V);
    dlogits_in_place<Real, Element>(scratch.data(), targets[n], N, V, scale);
    for (int64_t v = 0; v < rows; ++v) {
      const Real d = scratch[static_cast<size_t>(first + v)];
      for (int64_t c = 0; c < C; ++c) dwte[v * C + c] += d * static_cast<Real>(x[n * C + c]);
    }
  }
}

// dwte null: not wanted.
template <typename Real, typename Element>
void head_loss_backward(Real* losses, Element* dx, Real* dwte, const Element* x, const Element* wte, const int32_t* targets,
                        std::vector<Real>& scratch, int64_t N, int64_t C, int64_t V, Real scale) {
  scratch.resize(static_cast<size_t>(V));
  if (dwte != nullptr) std::fill(dwte, dwte + V * C, Real(0));
  for (int64_t n = 0; n < N; ++n) {
    Real* logits = scratch.data();  // (V), then their gradient
    head_logits(logits, x + n * C, wte, 1, C, V);
    losses[n] = dlogits_in_place<Real, Element>(logits, targets[n], N, V, scale);
    for (int64_t c = 0; c < C; ++c) {
      Real sum = 0;
      for (int64_t v = 0; v < V; ++v) sum += logits[v] * static_cast<Real>(wte[v * C + c]);
      dx[n * C + c] = static_cast<Element>(sum);
    }
    for (int64_t v = 0; v < V && dwte != nullptr; ++v) {
      for (int64_t c = 0; c < C; ++c) dwte[v * C + c] += logits[v] * static_cast<Real>(x[n * C + c]);
    }
  }
}

}  // namespace holdfast::kernels::ref
