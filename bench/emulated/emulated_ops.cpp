#include "bench/emulated/emulated_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>

#include "kernels/host_ops.h"

namespace holdfast::bench {
namespace {

using kernels::Act;
using kernels::AdamWStep;
using kernels::DeviceInfo;
using kernels::Dropout;
using kernels::DType;
using kernels::Epilogue;
using kernels::NesterovStep;

// Largest magnitude of every gradient; the numbers brought to a reduction do not depend on it.
constexpr float kLargest = 1e-3F;
constexpr int64_t kPeriod = 251;  // of the numbers brought to a reduction; a prime, so no tensor's rows are alike

double product(int64_t a, int64_t b, int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// Both products of causal attention, half of each square.
double attention(int64_t B, int64_t T, int64_t C) {
  return product(B * T, T, C);
}

// Existing contents stay: the sums are written once and then only read.
template <typename Number>
void bring(Number* sums, int64_t count) {
  const auto number = [](int64_t i) { return static_cast<Number>(i % kPeriod + 1); };
  if (count == 0 || (sums[0] == number(0) && sums[count - 1] == number(count - 1))) return;
  for (int64_t i = 0; i < count; ++i) sums[i] = number(i);
}

class EmulatedOps final : public kernels::HostOps {
 public:
  EmulatedOps(DType activations, std::chrono::duration<double> microbatch)
      : activations_(activations), microbatch_(microbatch) {}

  DeviceInfo info() const override {
    const std::string pace = std::to_string(std::lround(microbatch_.count() * 1e6)) + " us a microbatch";
    return {"emulated", "computes nothing, " + pace, "emulated", kernels::host_memory_bytes(), 1};
  }
  DType activation_dtype() const override { return activations_; }
  void parameters_changed() override {}
  void cast(Act*, const float*, int64_t) override {}

  void encoder_forward(float*, const int32_t*, const Act*, const float*, int64_t, int64_t, int64_t) override {
    begin_ = Clock::now();
    operations_ = 0;
    seconds_per_operation_ = 0;
  }
  void encoder_backward_positions(float*, const float*, int64_t, int64_t, int64_t) override {}
  void encoder_backward_tokens(float*, const float*, const kernels::TokenRuns&, int64_t) override {}
  void layernorm_forward(Act*, float*, float*, float*, const float*, const Act*, const float*, const float*, int64_t,
                         int64_t) override {}
  void layernorm_backward(float*, Act*, float*, float*, const Act*, const float*, const float*, const float*, const float*,
                          int64_t, int64_t) override {}
  void matmul_forward(Act*, Act*, const Act*, const Act*, const float*, Epilogue, int64_t N, int64_t IC, int64_t OC) override {
    work(product(N, IC, OC));
  }
  void matmul_backward(Act*, float*, float*, const Act*, const Act*, const Act*, const Act*, int64_t N, int64_t IC,
                       int64_t OC) override {
    work(2 * product(N, IC, OC));
  }
  void set_dropout_pass(uint64_t) override {}
  void drop(Act*, const Dropout&, int64_t, int64_t) override {}
  void drop(float*, const Dropout&, int64_t, int64_t) override {}
  void attention_forward(Act*, float*, const Act*, int64_t B, int64_t T, int64_t C, int64_t, const Dropout&) override {
    work(attention(B, T, C));
  }
  void attention_backward(Act*, const Act*, const Act*, const Act*, const float*, int64_t B, int64_t T, int64_t C, int64_t,
                          const Dropout&) override {
    work(2 * attention(B, T, C));
  }
  void head_loss(float* losses, const Act*, const Act*, const int32_t*, int64_t N, int64_t C, int64_t V) override {
    finish_head(losses, N, C, V, 1);
  }
  void head_loss_backward(float* losses, Act*, float*, const Act*, const Act*, const int32_t*, int64_t N, int64_t C, int64_t V,
                          float) override {
    finish_head(losses, N, C, V, 3);
  }
  void head_rows_backward(float*, int64_t, int64_t, const Act*, const Act*, const int32_t*, int64_t, int64_t, int64_t,
                          float) override {}
  int64_t head_rows() const override { return 0; }

  void adamw(float*, float*, float*, const float*, int64_t, const AdamWStep&) override {}
  void nesterov(float*, float*, const float*, int64_t, const NesterovStep&) override {}
  void subtract(float* out, const float*, const float*, int64_t count) override { bring(out, count); }
  void scale(float*, const float*, int64_t, float) override {}
  void sums_of_squares(double* sums, const Floats* of, size_t how_many) override {
    for (size_t i = 0; i < how_many; ++i) sums[i] = static_cast<double>(of[i].count) * kLargest * kLargest;
  }
  double sum(const float* x, int64_t count) override { return std::accumulate(x, x + count, 0.0); }
  float abs_max(const float*, int64_t count) override { return count == 0 ? 0.0F : kLargest; }
  void fixed_accumulate(int32_t* sums, const float*, int64_t count, int, bool) override { bring(sums, count); }
  void fixed_unpack(float*, const int32_t*, int64_t, float) override {}
  void fixed_accumulate(int16_t* sums, const float*, int64_t count, int, bool) override { bring(sums, count); }
  void fixed_unpack(float*, const int16_t*, int64_t, float) override {}
  void float_accumulate(float* sums, const float*, int64_t count, bool) override { bring(sums, count); }
  void add_rows(int32_t*, const int32_t*, const int32_t*, int64_t, int64_t) override {}
  void add_rows(int16_t*, const int16_t*, const int32_t*, int64_t, int64_t) override {}
  void add_rows(float*, const float*, const int32_t*, int64_t, int64_t) override {}

 private:
  using Clock = std::chrono::steady_clock;

  // So many operations later; returns when the device would. Before the head the rate is not known, and nothing is waited for.
  void work(double operations) {
    operations_ += operations;
    if (seconds_per_operation_ == 0) return;
    const std::chrono::duration<double> due(operations_ * seconds_per_operation_);
    std::this_thread::sleep_until(begin_ + std::chrono::duration_cast<Clock::duration>(due));
  }

  // A whole pass is three times its forward part, of which the head's product is the last. `times`: 1 forward, 3 with its
  // backward.
  void finish_head(float* losses, int64_t N, int64_t C, int64_t V, int times) {
    const double head = product(N, C, V);
    seconds_per_operation_ = microbatch_.count() / (3 * (operations_ + head));
    work(times * head);
    std::fill_n(losses, N, std::log(static_cast<float>(V)));
  }

  DType activations_;
  std::chrono::duration<double> microbatch_;
  Clock::time_point begin_;           // of this pass
  double operations_ = 0;             // in this pass so far
  double seconds_per_operation_ = 0;  // 0: not known yet
};

}  // namespace

std::unique_ptr<kernels::DeviceOps> make_emulated_ops(DType activations, std::chrono::duration<double> microbatch) {
  return std::make_unique<EmulatedOps>(activations, microbatch);
}

}  // namespace holdfast::bench
