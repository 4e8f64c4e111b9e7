// The op set for CPUs: products by products.h, the rest by the vector loops (vector/table.h), threads by
// team.h. One .cpp per topic, as in kernels/ref.
//
// Products take `operands`: bfloat16 as it is where the CPU multiplies that, float32 otherwise (a 16-bit tensor is then
// widened into scratch, exactly). They give float32, which is finished (bias, GELU, rounding) while still in cache.
#pragma once

#include <vector>

#include "kernels/cpu/cut.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/products.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/vector/table.h"
#include "kernels/dtype.h"
#include "kernels/host_ops.h"

namespace holdfast::kernels::cpu {

class CpuOps final : public HostOps {
 public:
  CpuOps(DType activations, int threads, Isa isa);

  DeviceInfo info() const override;
  DType activation_dtype() const override { return activations_; }
  void parameters_changed() override {}  // nothing derived from parameters is kept between ops
  void zero(void* memory, size_t bytes) override;
  void cast(Act* out, const float* in, int64_t count) override;
  std::unique_ptr<DecodeOps> make_decode_ops(WeightForm form) override;

  void encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C) override;
  void encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) override;
  void encoder_backward_tokens(float* dwte, const float* dout, const TokenRuns& runs, int64_t C) override;
  void layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const Act* x,
                         const float* weight, const float* bias, int64_t N, int64_t C) override;
  void layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout, const float* residual,
                          const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) override;
  void matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias, Epilogue epilogue,
                      int64_t N, int64_t IC, int64_t OC) override;
  void matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in, const Act* pre_gelu,
                       const Act* weight, int64_t N, int64_t IC, int64_t OC) override;
  void drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) override;
  void drop(float* x, const Dropout& dropout, int64_t N, int64_t C) override;
  void attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                         const Dropout& dropout) override;
  void attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                          int64_t T, int64_t C, int64_t NH, const Dropout& dropout) override;
  void head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C, int64_t V) override;
  void head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N,
                          int64_t C, int64_t V, float scale) override;
  void head_rows_backward(float* dwte, int64_t first_row, int64_t count, const Act* x, const Act* wte, const int32_t* targets,
                          int64_t N, int64_t C, int64_t V, float scale) override;
  int64_t head_rows() const override;

  void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) override;
  void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) override;
  void subtract(float* out, const float* a, const float* b, int64_t count) override;
  void scale(float* out, const float* x, int64_t count, float factor) override;
  void sums_of_squares(double* host_sums, const Floats* of, size_t how_many) override;
  double sum(const float* x, int64_t count) override;
  float abs_max(const float* x, int64_t count) override;
  void fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) override;
  void fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) override;
  void fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) override;
  void fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) override;
  void float_accumulate(float* sums, const float* x, int64_t count, bool first) override;
  void add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) override;
  void add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) override;
  void add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) override;

 private:
  struct Head;
  struct Attention;
  class Decode;
  class Int4Decode;
  class Int8Decode;

  // Element `index` of an activation tensor, as bytes.
  const void* at(const Act* x, int64_t index) const {
    return reinterpret_cast<const char*>(x) + static_cast<size_t>(index) * element_size_;
  }
  void* at(Act* x, int64_t index) const { return reinterpret_cast<char*>(x) + static_cast<size_t>(index) * element_size_; }
  // Element `index` of a product's operand.
  const void* operand_at(const void* x, int64_t index) const {
    return static_cast<const char*>(x) + static_cast<size_t>(index) * operand_size_;
  }

  // body(begin, count) over blocks of a flat array.
  template <typename Body>
  void for_each_block(int64_t count, const Body& body) {
    const Cut blocks = Cut::of(kBlock, count);
    team_.for_each(blocks.count, [&](int64_t i, int) { body(blocks.begin(i), blocks.size(i)); });
  }

  // `x` as operands of products: itself, or widened into `scratch`.
  const void* operands(const Act* x, int64_t count, Scratch& scratch);
  bool widens() const { return activations_ != DType::kFloat32 && !native_bfloat16_; }
  Product product(int64_t m, int64_t k, int64_t n, Layout a, Layout b, int64_t c_width, bool add = false);

  static constexpr int64_t kBlock = 1 << 15;  // elements of a flat array per task
  static constexpr int64_t kQueryRows = 128;  // of attention that are taken at a time

  DType activations_;
  Isa isa_;
  bool native_bfloat16_;
  size_t element_size_;  // of an activation
  size_t operand_size_;  // of a product's operand
  const VectorTable& vectors_;
  const ElementLoops& elements_;  // of the activation dtype
  const ElementLoops& operands_;  // of the operands' dtype
  Team team_;
  Products products_;
  Scratch in_, out_, weight_, packed_, packed_more_, partials_, statistics_;  // that header says what each op keeps where
  Scratch head_factors_;  // from head_loss_backward for head_rows_backward, whatever ops come between
  std::vector<Scratch> per_thread_;
};

}  // namespace holdfast::kernels::cpu
