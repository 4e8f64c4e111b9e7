#include "worker/profile/recording_ops.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "worker/profile/ranges.h"
#include "worker/profile/recorder.h"

namespace holdfast::worker {
namespace {

using kernels::Act;
using kernels::DeviceOps;
using kernels::Dropout;

// Ops in the device's queue, each between two marks.
class DeviceSpans final : public LaterSpans, public std::enable_shared_from_this<DeviceSpans> {
 public:
  explicit DeviceSpans(DeviceOps& ops) : ops_(ops) {}

  template <typename Call>
  auto marked(const char* name, SpanKind kind, const Call& call) {
    const size_t begin = mark();
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      queued_.push_back({name, kind, begin, mark()});
    } else {
      auto result = call();
      queued_.push_back({name, kind, begin, mark()});
      return result;
    }
  }

  void bring() noexcept override {
    if (marks_ == 0) return;
    const std::vector<Queued> queued = std::exchange(queued_, {});
    marks_ = 0;
    try {
      const Span phase(SpanKind::kPhase, "read the device's times");
      const std::vector<int64_t> passed_ns = ops_.take_marks();
      std::vector<RecordedSpan> spans;
      spans.reserve(queued.size());
      for (const Queued& op : queued) {
        const int64_t begin_ns = passed_ns.at(op.begin);
        spans.push_back({op.name, op.kind, begin_ns, passed_ns.at(op.end) - begin_ns, -1});
      }
      record_spans("device", spans);
    } catch (const std::exception& error) {  // of the device: whoever uses it next hears of it
      spdlog::warn("the profile has no times of the device: {}", error.what());
    }
  }

 private:
  struct Queued {
    const char* name;
    SpanKind kind;
    size_t begin, end;  // marks, counted since the last bring()
  };
  size_t mark() {
    if (!is_known_) bring_later(shared_from_this());
    is_known_ = true;
    ops_.mark();
    return marks_++;
  }

  DeviceOps& ops_;
  bool is_known_ = false;  // to the thread that records
  size_t marks_ = 0;
  std::vector<Queued> queued_;
};

// A sequence whose ops are called one by one while spans are wanted, for each has its own then.
class RecordingSequence final : public kernels::OpSequence {
 public:
  explicit RecordingSequence(std::unique_ptr<kernels::OpSequence> sequence) : sequence_(std::move(sequence)) {}

  void run(uint64_t variant, const std::function<void()>& ops) override {
    if (spans_are_wanted()) return ops();
    sequence_->run(variant, ops);
    if (was_told_ || sequence_->refusal().empty()) return;
    was_told_ = true;
    spdlog::warn(
        "the GPU's runtime does not record a microbatch as a graph ({}): its ops are launched one by one, which changes no "
        "result "
        "and takes a millisecond or two longer; HOLDFAST_GPU_GRAPHS=0 says so from the start",
        sequence_->refusal());
  }
  int64_t replays() const override { return sequence_->replays(); }
  std::string refusal() const override { return sequence_->refusal(); }

 private:
  const std::unique_ptr<kernels::OpSequence> sequence_;
  bool was_told_ = false;
};

// Memory and copies.
class RecordingMemory : public DeviceOps {
 protected:
  template <typename Call>
  auto recorded(const char* name, const Call& call, SpanKind kind = SpanKind::kOp) {
    const Span span(kind, name);
    if (on_device_ && span.is_recorded() && keeps_spans()) [[unlikely]]
      return on_device_->marked(name, kind, call);
    return call();
  }

 public:
  explicit RecordingMemory(std::unique_ptr<DeviceOps> ops)
      : ops_(std::move(ops)), on_device_(ops_->memory_is_host() ? nullptr : std::make_shared<DeviceSpans>(*ops_)) {}

  kernels::DeviceInfo info() const override { return ops_->info(); }
  kernels::DType activation_dtype() const override { return ops_->activation_dtype(); }

  void* allocate(size_t bytes) override { return ops_->allocate(bytes); }
  void release(void* memory) noexcept override { ops_->release(memory); }
  bool memory_is_host() const override { return ops_->memory_is_host(); }
  void* allocate_staging(size_t bytes) override { return ops_->allocate_staging(bytes); }
  void release_staging(void* memory) noexcept override { ops_->release_staging(memory); }

  void copy_to_device(void* to, const void* host_from, size_t bytes) override {
    recorded(
        "copy to device", [&] { ops_->copy_to_device(to, host_from, bytes); }, SpanKind::kCopy);
  }
  void copy_to_host(void* host_to, const void* from, size_t bytes) override {
    recorded(
        "copy to host", [&] { ops_->copy_to_host(host_to, from, bytes); }, SpanKind::kCopy);
  }
  void zero(void* memory, size_t bytes) override {
    recorded("zero", [&] { ops_->zero(memory, bytes); });
  }
  void synchronize() override {
    const Span span(SpanKind::kWait, "wait for the device");
    ops_->synchronize();
  }
  Copy begin_copy_to_host(void* staging_to, const void* from, size_t bytes) override {
    return ops_->begin_copy_to_host(staging_to, from, bytes);
  }
  void finish_copy(Copy copy) override {
    const Span span(SpanKind::kCopy, "wait for a copy to the host");
    ops_->finish_copy(copy);
  }
  void begin_copy_to_device(void* to, const void* staging_from, size_t bytes) override {
    ops_->begin_copy_to_device(to, staging_from, bytes);
  }
  void await_copies() override { ops_->await_copies(); }
  std::unique_ptr<kernels::DeviceSums> make_sums() override { return ops_->make_sums(); }
  std::unique_ptr<kernels::OpSequence> make_sequence() override {
    if (ops_->memory_is_host()) return ops_->make_sequence();
    return std::make_unique<RecordingSequence>(ops_->make_sequence());
  }
  void mark() override { ops_->mark(); }
  std::vector<int64_t> take_marks() override { return ops_->take_marks(); }

 protected:
  const std::unique_ptr<DeviceOps> ops_;

 private:
  const std::shared_ptr<DeviceSpans> on_device_;  // null where work is done at once
};

class RecordingOps final : public RecordingMemory {
 public:
  using RecordingMemory::RecordingMemory;

  void cast(Act* out, const float* in, int64_t count) override {
    recorded("cast", [&] { ops_->cast(out, in, count); });
  }
  void parameters_changed() override {
    recorded("pack weights", [&] { ops_->parameters_changed(); });
  }

  void encoder_forward(float* out, const int32_t* tokens, const Act* wte, const float* wpe, int64_t B, int64_t T,
                       int64_t C) override {
    recorded("encoder forward", [&] { ops_->encoder_forward(out, tokens, wte, wpe, B, T, C); });
  }
  void encoder_backward_positions(float* dwpe, const float* dout, int64_t B, int64_t T, int64_t C) override {
    recorded("encoder backward, positions", [&] { ops_->encoder_backward_positions(dwpe, dout, B, T, C); });
  }
  void encoder_backward_tokens(float* dwte, const float* dout, const kernels::TokenRuns& runs, int64_t C) override {
    recorded("encoder backward, tokens", [&] { ops_->encoder_backward_tokens(dwte, dout, runs, C); });
  }

  void layernorm_forward(Act* out, float* residual_out, float* mean, float* rstd, const float* residual_in, const Act* x,
                         const float* weight, const float* bias, int64_t N, int64_t C) override {
    recorded("layernorm forward",
             [&] { ops_->layernorm_forward(out, residual_out, mean, rstd, residual_in, x, weight, bias, N, C); });
  }
  void layernorm_backward(float* dresidual, Act* dx, float* dweight, float* dbias, const Act* dout, const float* residual,
                          const float* weight, const float* mean, const float* rstd, int64_t N, int64_t C) override {
    recorded("layernorm backward",
             [&] { ops_->layernorm_backward(dresidual, dx, dweight, dbias, dout, residual, weight, mean, rstd, N, C); });
  }

  void matmul_forward(Act* out, Act* pre_gelu, const Act* in, const Act* weight, const float* bias, kernels::Epilogue epilogue,
                      int64_t N, int64_t IC, int64_t OC) override {
    recorded("matmul forward", [&] { ops_->matmul_forward(out, pre_gelu, in, weight, bias, epilogue, N, IC, OC); });
  }
  void matmul_backward(Act* din, float* dweight, float* dbias, const Act* dout, const Act* in, const Act* pre_gelu,
                       const Act* weight, int64_t N, int64_t IC, int64_t OC) override {
    recorded("matmul backward", [&] { ops_->matmul_backward(din, dweight, dbias, dout, in, pre_gelu, weight, N, IC, OC); });
  }

  void set_dropout_pass(uint64_t pass) override { ops_->set_dropout_pass(pass); }
  void drop(Act* x, const Dropout& dropout, int64_t N, int64_t C) override {
    recorded("dropout", [&] { ops_->drop(x, dropout, N, C); });
  }
  void drop(float* x, const Dropout& dropout, int64_t N, int64_t C) override {
    recorded("dropout", [&] { ops_->drop(x, dropout, N, C); });
  }

  void attention_forward(Act* out, float* logsumexp, const Act* qkv, int64_t B, int64_t T, int64_t C, int64_t NH,
                         const Dropout& dropout) override {
    recorded("attention forward", [&] { ops_->attention_forward(out, logsumexp, qkv, B, T, C, NH, dropout); });
  }
  void attention_backward(Act* dqkv, const Act* dout, const Act* qkv, const Act* out, const float* logsumexp, int64_t B,
                          int64_t T, int64_t C, int64_t NH, const Dropout& dropout) override {
    recorded("attention backward", [&] { ops_->attention_backward(dqkv, dout, qkv, out, logsumexp, B, T, C, NH, dropout); });
  }

  void head_loss(float* losses, const Act* x, const Act* wte, const int32_t* targets, int64_t N, int64_t C,
                 int64_t V) override {
    recorded("head, loss", [&] { ops_->head_loss(losses, x, wte, targets, N, C, V); });
  }
  void head_loss_backward(float* losses, Act* dx, float* dwte, const Act* x, const Act* wte, const int32_t* targets, int64_t N,
                          int64_t C, int64_t V, float scale) override {
    recorded("head, loss and backward", [&] { ops_->head_loss_backward(losses, dx, dwte, x, wte, targets, N, C, V, scale); });
  }
  void head_rows_backward(float* dwte, int64_t first, int64_t rows, const Act* x, const Act* wte, const int32_t* targets,
                          int64_t N, int64_t C, int64_t V, float scale) override {
    recorded("head, rows of its gradient",
             [&] { ops_->head_rows_backward(dwte, first, rows, x, wte, targets, N, C, V, scale); });
  }
  int64_t head_rows() const override { return ops_->head_rows(); }

  void adamw(float* parameters, float* m, float* v, const float* gradient, int64_t count,
             const kernels::AdamWStep& step) override {
    recorded("adamw", [&] { ops_->adamw(parameters, m, v, gradient, count, step); });
  }
  void nesterov(float* parameters, float* momentum, const float* gradient, int64_t count,
                const kernels::NesterovStep& step) override {
    recorded("nesterov", [&] { ops_->nesterov(parameters, momentum, gradient, count, step); });
  }
  void subtract(float* out, const float* a, const float* b, int64_t count) override {
    recorded("subtract", [&] { ops_->subtract(out, a, b, count); });
  }
  void scale(float* out, const float* x, int64_t count, float factor) override {
    recorded("scale", [&] { ops_->scale(out, x, count, factor); });
  }
  void sums_of_squares(double* host_sums, const Floats* of, size_t how_many) override {
    recorded("sum of squares", [&] { ops_->sums_of_squares(host_sums, of, how_many); });
  }
  double sum(const float* x, int64_t count) override {
    return recorded("sum", [&] { return ops_->sum(x, count); });
  }

  float abs_max(const float* x, int64_t count) override {
    return recorded("largest magnitude", [&] { return ops_->abs_max(x, count); });
  }
  void abs_maxima(float* host_largest, const Floats* of, size_t how_many) override {
    recorded("largest magnitude", [&] { ops_->abs_maxima(host_largest, of, how_many); });
  }
  void fixed_accumulate(int32_t* sums, const float* x, int64_t count, int exponent, bool first) override {
    recorded("pack gradients", [&] { ops_->fixed_accumulate(sums, x, count, exponent, first); });
  }
  void fixed_accumulate(int16_t* sums, const float* x, int64_t count, int exponent, bool first) override {
    recorded("pack gradients", [&] { ops_->fixed_accumulate(sums, x, count, exponent, first); });
  }
  void fixed_unpack(float* x, const int32_t* sums, int64_t count, float scale) override {
    recorded("unpack gradients", [&] { ops_->fixed_unpack(x, sums, count, scale); });
  }
  void fixed_unpack(float* x, const int16_t* sums, int64_t count, float scale) override {
    recorded("unpack gradients", [&] { ops_->fixed_unpack(x, sums, count, scale); });
  }
  void float_accumulate(float* sums, const float* x, int64_t count, bool first) override {
    recorded("pack gradients", [&] { ops_->float_accumulate(sums, x, count, first); });
  }
  void add_rows(int32_t* sums, const int32_t* rows, const int32_t* ids, int64_t R, int64_t C) override {
    recorded("add rows", [&] { ops_->add_rows(sums, rows, ids, R, C); });
  }
  void add_rows(int16_t* sums, const int16_t* rows, const int32_t* ids, int64_t R, int64_t C) override {
    recorded("add rows", [&] { ops_->add_rows(sums, rows, ids, R, C); });
  }
  void add_rows(float* sums, const float* rows, const int32_t* ids, int64_t R, int64_t C) override {
    recorded("add rows", [&] { ops_->add_rows(sums, rows, ids, R, C); });
  }
};

}  // namespace

std::unique_ptr<kernels::DeviceOps> with_spans(std::unique_ptr<kernels::DeviceOps> ops) {
  if (!ops->memory_is_host()) show_ranges_of_gpu();
  return std::make_unique<RecordingOps>(std::move(ops));
}

}  // namespace holdfast::worker
