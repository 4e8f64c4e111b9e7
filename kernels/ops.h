// The device-ops seam: every number that training computes is computed behind this interface.
//
// Promises of every implementation:
//   - Deterministic: the same inputs give the same bits, whatever the number of threads. Reductions are cut into
//     pieces of fixed size and the pieces are added in a fixed order; there are no floating-point atomics.
//   - Outputs are written whole, never accumulated into, unless the comment says "+=".
//   - No allocation by us inside an op after its first call with a given shape, for as long as a model keeps to its shapes.
// Refuses: nothing at run time. Shapes are checked once, when the model is built; here they are preconditions.
//
// Letters:  B sequences in a microbatch, T tokens in a sequence, N = B*T rows, C channels, NH heads, HS = C/NH,
//           V vocabulary, IC and OC the inner and outer width of a matrix product.
// Element types:  `float*` is float32. `Act*` has elements of `activation_dtype()`. The residual stream, its gradient,
//           statistics, losses and every parameter gradient are float32 whatever the activation type.
// Pointers are device memory from `allocate` (host memory for ref and cpu) unless named `host_`.
// Thread:   one DeviceOps belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/adamw_step.h"
#include "kernels/decode_ops.h"
#include "kernels/device_sums.h"
#include "kernels/dropout.h"
#include "kernels/op_sequence.h"

namespace holdfast::kernels {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat16 };
const char* dtype_name(DType dtype);  // "float32", "bfloat16", "float16": the words of the job spec
std::optional<DType> dtype_named(std::string_view name);
size_t dtype_size(DType dtype);  // bytes of one element

// The description of a device that its worker sends to the service. Two workers whose `numerics` differ cannot be in one exact
// job.
struct DeviceInfo {
  std::string kind;              // "cpu", "ref", "hip"
  std::string model;             // "Intel(R) Xeon(R) Processor", as the machine names it
  std::string numerics;          // all that changes bits: kind, instruction set, version of the loops. "cpu/avx512/products-3"
  int64_t memory_bytes;          // the device's memory in all
  int threads;                   // 0 where the word has no meaning
  std::string pci_address = {};  // of a GPU: "0000:03:00.0"
};

// The device itself failed, not what was asked of it: the process that uses it is to end, and another one to begin.
class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Epilogue : uint8_t { kNone, kGelu };

// An element of the activation dtype; only ever used through a pointer.
struct Act;

// The N tokens of a microbatch by value: run r is of one of the R distinct tokens, and names the places where it stands,
// ascending. Device memory.
struct TokenRuns {
  const int32_t* ids;        // (R) the rows that the runs' gradients go to: the tokens, for all V rows; null: row r, for R rows
  const int32_t* starts;     // (R + 1) run r is positions starts[r] .. starts[r + 1]
  const int32_t* positions;  // (N)
  int64_t R;
};

class DeviceOps {
 public:
  virtual ~DeviceOps() = default;

  virtual DeviceInfo info() const = 0;
  virtual DType activation_dtype() const = 0;

  // --- memory. Throws std::runtime_error that names the bytes asked for when there are not enough.
  virtual void* allocate(size_t bytes) = 0;  // 64-byte aligned, contents unspecified
  virtual void release(void* memory) noexcept = 0;
  virtual void copy_to_device(void* to, const void* host_from, size_t bytes) = 0;
  virtual void copy_to_host(void* host_to, const void* from, size_t bytes) = 0;
  virtual void zero(void* memory, size_t bytes) = 0;
  virtual void synchronize() = 0;  // returns when all work queued before it is done

  // --- copies beside the queue, for the ring. Staging memory is the host's, and copies to and from it go on by themselves.
  // Whether memory of `allocate` is the host's, too: then nobody needs any of this, and copies are done at once.
  virtual bool memory_is_host() const = 0;
  virtual void* allocate_staging(size_t bytes) = 0;         // 64-byte aligned, contents unspecified
  virtual void release_staging(void* memory) noexcept = 0;  // waits for copies that nobody waited for
  using Copy = uint64_t;
  // Begins when all work is done that is queued now; what is queued later does not wait for it, and leaves `from` alone until
  // then.
  virtual Copy begin_copy_to_host(void* staging_to, const void* from, size_t bytes) = 0;
  // These two may be called by one other thread beside all else. The first returns when the copy is done; once for each. The
  // second does not wait for work that is queued: of that, nothing may use `to`.
  virtual void finish_copy(Copy copy) = 0;
  virtual void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) = 0;
  // Work that is queued from now on comes after all copies to the device that have begun.
  virtual void await_copies() = 0;
  // For sums with other GPUs of this machine. Null: this op set, or this build, has none.
  virtual std::unique_ptr<DeviceSums> make_sums() { return nullptr; }

  // --- for a sequence of ops that is called again and again. Given back before memory that it uses, and before this.
  virtual std::unique_ptr<OpSequence> make_sequence() { return std::make_unique<OpSequence>(); }

  // --- for writing text. Null: this op set has none.
  virtual std::unique_ptr<DecodeOps> make_decode_ops(WeightForm) { return nullptr; }

  // --- marks in the queue, for a profile of ops that are queued. A mark is passed when all work is done that was queued before
  // it, and later work begins after that. `mark` waits for nothing, and costs the device some microseconds.
  virtual void mark() = 0;
  // The times at which the marks since the last call were passed, in their order: nanoseconds of std::chrono::steady_clock.
  // All of them are late by the same amount, which is below the time that a device with nothing to do takes to answer (tens of
  // microseconds): so none is before its work was queued, and none after this call returns. Waits for all work that is queued.
  virtual std::vector<int64_t> take_marks() = 0;

  // --- parameters: float32 masters are cast to the activation dtype once per step.
  virtual void cast(Act* out, const float* in, int64_t count) = 0;
  // Call after any change to parameter memory: an implementation may keep packed copies of weights.
  virtual void parameters_changed() = 0;

  // --- encoder. out (N, C) = wte[tokens] + wpe[position]; tokens (N) are ids below V. wte (V, C) is, as a tied head
  // reads it, in the activations' type: who lacks its float32 masters computes the same bits.
  virtual void encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                               int64_t C) = 0;
  // Its backward pass, in two ops. dwpe (T, C) = sum of dout (N, C) over B.
  virtual void encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) = 0;
  // dwte[row of n's token] += dout[n], each of C, in the order of n.
  virtual void encoder_backward_tokens(float* dwte, const float* dout, const TokenRuns& runs, int64_t C) = 0;

  // --- LayerNorm (Ba, Kiros, Hinton 2016, eq. 4), epsilon 1e-5, with the residual addition before it:
  // residual_out (N, C) = residual_in + x;   out (N, C) = norm(residual_out) * weight + bias.
  // x may be null (then residual_out is not written and may be null: residual_in is normalised).
  // mean, rstd (N) are kept for the backward pass.
  virtual void layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in,
                                 const Act* x, const float* weight, const float* bias, int64_t N, int64_t C) = 0;
  // dresidual (N, C) += gradient through the norm;  dx (N, C) = cast(dresidual) after that, unless dx is null.
  // dweight, dbias (C) are written. residual is what was normalised.
  virtual void layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout,
                                  const float* residual, const float* weight, const float* mean, const float* rstd, int64_t N,
                                  int64_t C) = 0;

  // --- matrix product. out (N, OC) = epilogue(in (N, IC) * weight (OC, IC)^T + bias (OC)). An op set may round the bias to the
  // activations' type first, as weights were.
  // With Epilogue::kGelu, pre_gelu (N, OC) receives the value before it, for the backward pass.
  virtual void matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias, Epilogue epilogue,
                              int64_t N, int64_t IC, int64_t OC) = 0;
  // din (N, IC) = dout * weight;  dweight (OC, IC) = dout^T * in;  dbias (OC) = column sums of dout.
  // With pre_gelu (N, IC), of which `in` is GELU, din is its gradient: what was din, as it would be stored, times
  // gelu'(pre_gelu). Null: no GELU is there. GELU is the tanh form (Hendrycks, Gimpel 2016, section 2).
  virtual void matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in, const Act* pre_gelu,
                               const Act* weight, int64_t N, int64_t IC, int64_t OC) = 0;

  // --- dropout.h: what is drawn depends on the pass under way (dropout_pass), which is a number in the queue: ops that are
  // queued later see it.
  virtual void set_dropout_pass(uint64_t pass) = 0;
  // x (N, C) times each element's factor: of a value its dropout, of a gradient the gradient through it.
  virtual void drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) = 0;
  virtual void drop(float* x, const Dropout& dropout, int64_t N, int64_t C) = 0;

  // --- causal self-attention, softmax(q k^T / sqrt(HS)) v per head, where dropout may leave out probabilities: row
  // (b * NH + h) * T + query, column key.
  // qkv (B, T, 3C): q, k, v side by side, each (NH, HS). out (B, T, C). logsumexp (B, NH, T) is kept for the backward
  // pass. No (T, T) matrix outlives the op (Dao et al. 2022, algorithm 1). A number of qkv or dout that is not finite may
  // make NaNs of rows, too, that do not see its token: an op set may multiply it by their probability of 0.
  virtual void attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                                 const Dropout& dropout) = 0;
  virtual void attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                                  int64_t T, int64_t C, int64_t NH, const Dropout& dropout) = 0;

  // --- head and cross-entropy, fused; logits exist for one chunk of rows at a time.
  // losses (N) = -log softmax(x (N, C) * wte (V, C)^T)[target]. targets (N) are ids below V.
  virtual void head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                         int64_t V) = 0;
  // The same, and `scale` (a power of two) times its gradient for the mean over N: dx (N, C), dwte (V, C) written. With a
  // scale above 1 what float16 stores of gradients does not vanish; what overflows becomes infinite. Where head_rows() is not
  // 0, dwte may be null: then head_rows_backward brings it.
  virtual void head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets,
                                  int64_t N, int64_t C, int64_t V, float scale) = 0;
  // Rows of dwte for whoever lacks memory for all of them, when they are wanted: dwte (rows, C) has those from `first` on, a
  // multiple of head_rows(), as `rows` is but for the last ones. The bits are those of head_loss_backward, which was called
  // before with the same arguments and no dwte, whatever other ops came between. The logits are computed again.
  virtual void head_rows_backward(float* dwte, int64_t first, int64_t rows, const Act* x, const Act* wte,
                                  const int32_t* targets, int64_t N, int64_t C, int64_t V, float scale) = 0;
  // 0: this op set has dwte whole or not at all, and no head_rows_backward.
  virtual int64_t head_rows() const = 0;

  // --- optimizer. AdamW (Loshchilov, Hutter 2019, algorithm 2) on `count` elements; m and v are the moments.
  virtual void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) = 0;
  // SGD with Nesterov momentum (Sutskever et al. 2013, in the form of torch.optim.SGD) on `count` elements: momentum =
  // step.momentum * momentum + gradient;  parameters -= step.learning_rate * (gradient + step.momentum * momentum).
  virtual void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) = 0;
  // out[i] = a[i] - b[i]. out may be a or b.
  virtual void subtract(float* out, const float* a, const float* b, int64_t count) = 0;
  // out[i] = x[i] * factor. out may be x.
  virtual void scale(float* out, const float* x, int64_t count, float factor) = 0;
  // Elements side by side, of which an op takes several at once.
  struct Floats {
    const float* x;
    int64_t count;
  };
  // host_sums[i] = sum of the squares of of[i], in double and in fixed pieces: the same bits whatever else is in `of`. Not
  // finite if any element is not; 0 for count 0. All are waited for once. host_sums and of (how_many) are host memory; the
  // elements may overlap.
  virtual void sums_of_squares(double* host_sums, const Floats* of, size_t how_many) = 0;
  double sum_of_squares(const float* x, int64_t count) {
    const Floats of{x, count};
    double sum = 0;
    sums_of_squares(&sum, &of, 1);
    return sum;
  }
  // Sum of `count` floats in double, in fixed pieces (losses).
  virtual double sum(const float* x, int64_t count) = 0;

  // --- fixed point: what makes a reduction independent of its order.
  // Largest magnitude in x; +infinity if any element is not finite; 0 for count 0.
  virtual float abs_max(const float* x, int64_t count) = 0;
  // The same of each of several, which are waited for once: host_largest[i] of those of `of[i]`.
  virtual void abs_maxima(float* host_largest, const Floats* of, size_t how_many) = 0;
  // sums[i] = (first ? 0 : sums[i]) + round_to_nearest_even(x[i] * 2^exponent).
  // The caller has chosen the exponent such that no sum can leave the integer's type.
  virtual void fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) = 0;
  virtual void fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) = 0;
  // x[i] = float(sums[i]) * scale, one rounding each. int32 sums may be the same memory as x; int16 sums may not overlap it.
  virtual void fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) = 0;
  virtual void fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) = 0;
  // For the float reduction: sums[i] = (first ? 0 : sums[i]) + x[i].
  virtual void float_accumulate(float* sums, const float* x, int64_t count, bool first) = 0;
  // Some rows of sums that have many: sums[ids[r]] += rows[r], each of C; `ids` (R) are distinct. rows (R, C) are packed
  // already, and integers fit, as above.
  virtual void add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) = 0;
  virtual void add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) = 0;
  virtual void add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) = 0;
};

// The judge: plain loops in the order of the formulas, float32 inside, activations rounded to `activations` where stored.
std::unique_ptr<DeviceOps> make_ref_ops(DType activations);

// Products and vector code of the instruction set that is picked at run time. `threads` at least 1.
// HOLDFAST_CPU_ISA=avx2|avx512|avx512_bf16|amx forces one. Throws std::runtime_error for a CPU below AVX2 and for a
// HOLDFAST_CPU_ISA that this CPU does not have.
std::unique_ptr<DeviceOps> make_cpu_ops(DType activations, int threads);

// A GPU, by the runtime's number (gpus.h). Only in builds for one (HOLDFAST_HIP). This and every op throw DeviceFailure where
// the runtime fails: "hip: WHAT: its words".
std::unique_ptr<DeviceOps> make_hip_ops(DType activations, int device);

// Makes an op set of a device that is chosen already.
using OpsFactory = std::function<std::unique_ptr<DeviceOps>(DType activations)>;

}  // namespace holdfast::kernels
