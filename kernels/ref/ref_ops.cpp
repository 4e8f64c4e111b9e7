// The judge: each op is the plain loop of the header beside it, in float32, one thread, activations rounded where stored.
#include <stdexcept>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/host_ops.h"
#include "kernels/ref/attention.h"
#include "kernels/ref/decode.h"
#include "kernels/ref/dropout.h"
#include "kernels/ref/encoder.h"
#include "kernels/ref/fixed_point.h"
#include "kernels/ref/head.h"
#include "kernels/ref/layernorm.h"
#include "kernels/ref/matmul.h"
#include "kernels/ref/optimizer.h"

namespace holdfast::kernels {
namespace {

template <typename Element>
Element* as(Act* x) {
  return reinterpret_cast<Element*>(x);
}
template <typename Element>
const Element* as(const Act* x) {
  return reinterpret_cast<const Element*>(x);
}

template <typename E>
class RefOps final : public HostOps {
 public:
  DeviceInfo info() const override { return {"ref", host_cpu_model(), "ref", host_memory_bytes(), 1}; }
  DType activation_dtype() const override { return dtype_of<E>(); }

  void cast(Act* out, const float* in, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) as<E>(out)[i] = static_cast<E>(in[i]);
  }
  void parameters_changed() override {}
  std::unique_ptr<DecodeOps> make_decode_ops(WeightForm form) override {
    if (form == WeightForm::kInt8) return std::make_unique<ref::Int8Decode<E>>();
    if (form == WeightForm::kInt4) return std::make_unique<ref::Int4Decode<E>>();
    return std::make_unique<ref::Decode<E>>();
  }

  void encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C) override {
    ref::encoder_forward(out, tokens, as<E>(wte), wpe, B, T, C);
  }
  void encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) override {
    ref::encoder_backward_positions(dwpe, dout, B, T, C);
  }
  void encoder_backward_tokens(float* dwte, const float* dout, const TokenRuns& runs, int64_t C) override {
    ref::encoder_backward_tokens(dwte, dout, runs, C);
  }

  void layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const Act* x,
                         const float* weight, const float* bias, int64_t N, int64_t C) override {
    ref::layernorm_forward(as<E>(out), residual_out, mean, rstd, residual_in, as<E>(x), weight, bias, N, C);
  }
  void layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout, const float* residual,
                          const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) override {
    ref::layernorm_backward(dresidual, as<E>(dx), dweight, dbias, as<E>(dout), residual, weight, mean, rstd, N, C);
  }

  void matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias, Epilogue epilogue,
                      int64_t N, int64_t IC, int64_t OC) override {
    ref::matmul_forward(as<E>(out), as<E>(pre_gelu), as<E>(in), as<E>(weight), bias, epilogue, N, IC, OC);
  }
  void matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in, const Act* pre_gelu,
                       const Act* weight, int64_t N, int64_t IC, int64_t OC) override {
    ref::matmul_backward(as<E>(din), dweight, dbias, as<E>(dout), as<E>(in), as<E>(weight), N, IC, OC);
    if (pre_gelu != nullptr) ref::gelu_backward<float>(as<E>(din), as<E>(pre_gelu), as<E>(din), N * IC);
  }

  void drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) override {
    ref::drop(as<E>(x), dropout, dropout_pass_, N, C);
  }
  void drop(float* x, const Dropout& dropout, int64_t N, int64_t C) override { ref::drop(x, dropout, dropout_pass_, N, C); }

  void attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                         const Dropout& dropout) override {
    ref::attention_forward(as<E>(out), logsumexp, as<E>(qkv), scratch_, B, T, C, NH, dropout, dropout_pass_);
  }
  void attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                          int64_t T, int64_t C, int64_t NH, const Dropout& dropout) override {
    ref::attention_backward(as<E>(dqkv), as<E>(dout), as<E>(qkv), as<E>(out), logsumexp, scratch_, B, T, C, NH, dropout,
                            dropout_pass_);
  }

  void head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                 int64_t V) override {
    ref::head_loss(losses, as<E>(x), as<E>(wte), targets, scratch_, N, C, V);
  }
  void head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N,
                          int64_t C, int64_t V, float scale) override {
    ref::head_loss_backward(losses, as<E>(dx), dwte, as<E>(x), as<E>(wte), targets, scratch_, N, C, V, scale);
  }
  void head_rows_backward(float* dwte, int64_t first, int64_t rows, const Act* x, const Act* wte, const int32_t* targets,
                          int64_t N, int64_t C, int64_t V, float scale) override {
    ref::head_rows_backward(dwte, first, rows, as<E>(x), as<E>(wte), targets, scratch_, N, C, V, scale);
  }
  int64_t head_rows() const override { return 1; }

  void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) override {
    ref::adamw(parameters, m, v, gradient, count, step);
  }
  void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) override {
    ref::nesterov(parameters, momentum, gradient, count, step);
  }
  void subtract(float* out, const float* a, const float* b, int64_t count) override { ref::subtract(out, a, b, count); }
  void scale(float* out, const float* x, int64_t count, float factor) override { ref::scale(out, x, count, factor); }
  void sums_of_squares(double* host_sums, const Floats* of, size_t how_many) override {
    for (size_t i = 0; i < how_many; ++i) host_sums[i] = ref::sum_of_squares(of[i].x, of[i].count);
  }
  double sum(const float* x, int64_t count) override { return ref::sum(x, count); }

  float abs_max(const float* x, int64_t count) override { return ref::abs_max(x, count); }
  void fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) override {
    ref::fixed_accumulate(sums, x, count, exponent, first);
  }
  void fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) override {
    ref::fixed_accumulate(sums, x, count, exponent, first);
  }
  void fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) override {
    ref::fixed_unpack(x, sums, count, scale);
  }
  void fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) override {
    ref::fixed_unpack(x, sums, count, scale);
  }
  void float_accumulate(float* sums, const float* x, int64_t count, bool first) override {
    ref::float_accumulate(sums, x, count, first);
  }
  void add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) override {
    ref::add_rows(sums, rows, ids, R, C);
  }
  void add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) override {
    ref::add_rows(sums, rows, ids, R, C);
  }
  void add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) override {
    ref::add_rows(sums, rows, ids, R, C);
  }

 private:
  std::vector<float> scratch_;  // grows to the largest row or head seen
};

}  // namespace

std::unique_ptr<DeviceOps> make_ref_ops(DType activations) {
  switch (activations) {
    case DType::kFloat32:
      return std::make_unique<RefOps<float>>();
    case DType::kBFloat16:
      return std::make_unique<RefOps<BFloat16>>();
    case DType::kFloat16:
      return std::make_unique<RefOps<Float16>>();
  }
  throw std::invalid_argument("make_ref_ops: DType value " + std::to_string(static_cast<int>(activations)) +
                              " is none of float32, bfloat16, float16");
}

}  // namespace holdfast::kernels
