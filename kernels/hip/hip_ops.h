// The hip op set: one GPU, one stream for the work, one beside it for the gradients of weights (queue/side_stream.h), and one
// each way for copies beside both. The host only queues; it waits where an op returns a number, in copies from the device and
// in large ones to it that are not beside the queue, before memory is given back, and where scratch grows, with the first call
// of a shape. A sequence of ops that comes again is queued as a graph (queue/captured_sequence.h).
//
// Products are the vendor's library's where the build has one (library_products.h) and it can do them, else our own
// (product.h), on matrix units for 16-bit activations. Refuses: what DeviceOps refuses; heads wider than 128
// (std::invalid_argument). Throws DeviceError (runtime.h).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "kernels/hip/library_products.h"
#include "kernels/hip/library_sums.h"
#include "kernels/hip/queue/side_stream.h"
#include "kernels/hip/runtime.h"
#include "kernels/hip/sums.h"
#include "kernels/ops.h"

namespace holdfast::kernels::hip {

inline constexpr int64_t kWidestHead = 128;
// Rows of logits that exist at once, as floats: few enough to stay in a large cache where that helps (64 MB of a Radeon's take
// 51 MB of GPT-2's vocabulary), and enough of them, with a block each, for every processor. On an H200 cross-entropy took as
// long for 128 rows, which its cache holds, as for 2,048, and the products took 1.4 times as long. Rows of their gradients, as
// activations: the more, the less often the embedding's gradient is gone through.
#if defined(HOLDFAST_HIP_ON_CPU)
inline constexpr int64_t kLogitRows = 64, kLogitGradientRows = 256;  // so that small tests have several of each
#elif defined(__CUDACC__)
inline constexpr int64_t kLogitRows = 1024, kLogitGradientRows = 2048;
#else
inline constexpr int64_t kLogitRows = 256, kLogitGradientRows = 2048;
#endif

// Memory of the device that keeps its place while it is large enough.
class DeviceScratch {
 public:
  explicit DeviceScratch(const Stream& stream) : stream_(stream) {}
  ~DeviceScratch();
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;
  // Contents are unspecified. Pointers from before are not valid any more.
  template <typename T>
  T* get(int64_t count) {
    return static_cast<T*>(at_least(static_cast<size_t>(count) * sizeof(T)));
  }
  uint64_t moves() const { return moves_; }  // how often it has changed its place

 private:
  void* at_least(size_t bytes);
  const Stream& stream_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  uint64_t moves_ = 0;
};

template <typename Element>
struct Operand;  // product.h

// A stream for products, with scratch and a library's workspace that no other stream uses.
struct Lane {
  Lane(int device, Stream::Priority priority)
      : stream(device, priority), scratch(stream), parts(stream), library(make_library_products(stream)) {}
  uint64_t moves() const { return scratch.moves() + parts.moves(); }  // the library's workspace has its size from the start

  Stream stream;
  DeviceScratch scratch, parts;
  std::unique_ptr<LibraryProducts> library;
};

// `Element` is what activations are stored as: float, BFloat16 or Float16.
template <typename Element>
class HipOps final : public DeviceOps {
 public:
  explicit HipOps(int device);

  DeviceInfo info() const override;
  DType activation_dtype() const override;

  void* allocate(size_t bytes) override;
  void release(void* memory) noexcept override;
  void copy_to_device(void* to, const void* host_from, size_t bytes) override;
  void copy_to_host(void* host_to, const void* from, size_t bytes) override;
  void zero(void* memory, size_t bytes) override;
  void synchronize() override;

  bool memory_is_host() const override { return false; }
  void* allocate_staging(size_t bytes) override;
  void release_staging(void* memory) noexcept override;
  Copy begin_copy_to_host(void* staging_to, const void* from, size_t bytes) override;
  void finish_copy(Copy copy) override;
  void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) override;
  void await_copies() override;
  std::unique_ptr<DeviceSums> make_sums() override;
  std::unique_ptr<OpSequence> make_sequence() override;
  std::unique_ptr<DecodeOps> make_decode_ops(WeightForm form) override;  // decode/decode.h
  void mark() override;
  std::vector<int64_t> take_marks() override;

  void cast(Act* out, const float* in, int64_t count) override;
  void parameters_changed() override {}

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

  void set_dropout_pass(uint64_t pass) override;
  void drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) override;
  void drop(float* x, const Dropout& dropout, int64_t N, int64_t C) override;

  void attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                         const Dropout& dropout) override;
  void attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                          int64_t T, int64_t C, int64_t NH, const Dropout& dropout) override;

  void head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C, int64_t V) override;
  void head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N,
                          int64_t C, int64_t V, float scale) override;
  void head_rows_backward(float*, int64_t, int64_t, const Act*, const Act*, const int32_t*, int64_t, int64_t, int64_t,
                          float) override {
    throw std::logic_error("head_rows() is 0: the gradient of the head comes whole");
  }
  // A library's bits depend on the shape of a product.
  int64_t head_rows() const override { return 0; }

  void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count, const AdamWStep& step) override;
  void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count, const NesterovStep& step) override;
  void subtract(float* out, const float* a, const float* b, int64_t count) override;
  void scale(float* out, const float* x, int64_t count, float factor) override;
  void sums_of_squares(double* host_sums, const Floats* of, size_t how_many) override;
  double sum(const float* x, int64_t count) override;

  float abs_max(const float* x, int64_t count) override;
  void abs_maxima(float* host_largest, const Floats* of, size_t how_many) override;
  void fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) override;
  void fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) override;
  void fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) override;
  void fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) override;
  void float_accumulate(float* sums, const float* x, int64_t count, bool first) override;
  void add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) override;
  void add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) override;
  void add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) override;

 private:
  class Decode;
  class Int4Decode;
  class Int8Decode;

  // The main stream, for work that may touch any memory: what is beside it is waited for.
  const Stream& work() {
    side_.join();
    return main_.stream;
  }
  std::vector<const Stream*> streams() const;
  void finish_what_is_queued() noexcept;
  // The element kernels have a thread an element, up to so many blocks.
  template <typename... Parameters, typename... Arguments>
  void over_elements(const char* name, void (*kernel)(Parameters...), int64_t count, Arguments... arguments);
  template <typename T>
  void fetch(T* host_to, const T* from, size_t count);  // waits
  uint64_t* pass_of_dropout() { return dropout_pass_.get<uint64_t>(1); }
  template <typename Number>
  void drop_numbers(Number* x, const Dropout& dropout, int64_t N, int64_t C);
  // `Dropped`: NoDropout or DropoutOfPass.
  template <typename What>
  void with_dropout(const Dropout& dropout, What what);
  template <typename Dropped>
  void attention_forward_with(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                              Dropped dropped);
  template <typename Dropped>
  void attention_backward_with(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                               int64_t T, int64_t C, int64_t NH, Dropped dropped);
  void sum_columns(Lane& lane, float* out, const Element* x, int64_t N, int64_t C);
  // dweight (OC, IC) = dout^T * in, and dbias (OC), the column sums of dout, by the way.
  void gradients_of_weights(Lane& lane, float* dweight, float* dbias, const Element* dout, const Element* in, int64_t N,
                            int64_t IC, int64_t OC);
  void gradient_of_input(Element* din, const Element* dout, const Element* pre_gelu, const Element* weight, int64_t N,
                         int64_t IC, int64_t OC);
  // result = A (M, K) * B (N, K)^T where the build's library can do it: whether it has.
  template <bool ARowsContiguous, bool BRowsContiguous, typename A, typename B>
  bool by_library(Lane& lane, const LibraryProducts::Result& result, const A& a, const B& b, int64_t K);
  const void* bias_of_activations(const float* bias, int64_t count);  // as the library wants it
  // The forward pass's products by our own kernel, whether there is a library or not. A row's bits do not depend on how many
  // there are: each element's terms are added in the order of K, in one part. in (N, IC), weight (OC, IC), out (N, OC); GELU
  // is taken where pre_gelu, which is of out's shape, is not null.
  void own_linear(Element* out, Element* pre_gelu, const Operand<Element>& in, const Operand<Element>& weight,
                  const float* bias, int64_t IC);
  void own_logits(float* logits, int64_t stride, const Operand<Element>& x, const Operand<Element>& wte, int64_t C);
  // out (M, N) as floats, added to what is there or not: in parts of K where there are few pieces.
  template <bool ARowsContiguous, bool BRowsContiguous, typename A, typename B>
  void product_of_floats(float* out, A a, B b, int64_t K, bool add);
  // logits (rows, V), of whose rows each begins `stride` after the one before.
  void logits_of(float* logits, int64_t stride, const Element* x, const Element* wte, int64_t rows, int64_t C, int64_t V);
  // losses (rows), and unless it is null dlogits (rows, V padded), of `rows` rows.
  void gradient_of_inputs(Element* dx, const Element* dlogits, const Element* wte, int64_t rows, int64_t C, int64_t V);
  void cross_entropy_of(float* losses, Element* dlogits, float* logits, const Element* x, const Element* wte,
                        const int32_t* targets, int64_t rows, int64_t C, int64_t V, float scale);

  DeviceProperties properties_;
  Lane main_;
  std::unique_ptr<Lane> beside_;  // null: the main one does it all
  SideStream side_;
  Stream to_host_, to_device_;
  QuickCopies quick_copies_;
  Marks marks_{main_.stream};
  std::mutex copies_mutex_;
  std::map<Copy, Event> copies_;  // to the host, that nobody waited for yet
  Copy last_copy_ = 0;
  DeviceScratch logits_, dropout_pass_;
  PinnedMemory result_;              // numbers that an op returns, on their way
  std::vector<PiecedRange> ranges_;  // of sums_of_squares, until they are copied
};

}  // namespace holdfast::kernels::hip
