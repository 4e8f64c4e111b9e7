// One training step of GPT-2 Tiny, without service, network or reduction: what the kernels alone give. On the cpu op set, or
// with --device ref on the plain loops that it is judged by (one thread, hundreds of times slower).
// Prints one JSON object per step (the first one sets up scratch and is slower) and one with the memory, and the hash of the
// state, at the end: the same device with the same numerics has the same hash again. `replays`: how many microbatches a GPU did
// as a recorded graph, and `graph_refusal` why not the others, where the runtime refused.
// With --product instead: the best rate of one 2048 x 2048 x 2048 product, the floor that bench/run step is measured against.
// With --copies: how quickly bytes come from the device to host memory, and get there.
// With --profile: each op of a step, the mean of --steps steps after a first one: how often, and how long it takes on the
// device (a GPU's by marks in its queue) and in the call. The last line has the step, and how much of it the device had ops.
// With --spans: how long an empty span takes; then steps of three kinds in turn, with plain ops, with ops that could be
// recorded, as a worker has them, and while they are recorded; one object a step that says which.
//
//   bench_step --threads 2 --batch 4 --dtype bfloat16 --steps 6
//   bench_step --device ref --batch 1 --dtype float32 --steps 1
//   bench_step --threads 2 --dtype float32 --product
//   bench_step --threads 2 --batch 4 --dtype bfloat16 --steps 5 --profile
//   bench_step --device hip --batch 16 --dtype bfloat16 --steps 20      in builds for GPUs
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/device_buffer.h"
#include "model/gpt2.h"
#include "model/state/train_state.h"
#include "worker/devices/devices.h"
#include "worker/profile/recorder.h"
#include "worker/profile/recording_ops.h"

namespace {

using namespace holdfast;

constexpr model::Gpt2Config kTiny{.n_layer = 6, .n_embd = 384, .n_head = 6, .vocab_size = 50257, .block_size = 512};
constexpr model::OptimizerConfig kOptimizer{.learning_rate = 3e-4,
                                            .min_lr = 3e-5,
                                            .warmup_steps = 2,
                                            .total_steps = 1000,
                                            .weight_decay = 0.1,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .grad_clip = 1.0};

struct Options {
  int threads = 1;
  int64_t batch = 4, steps = 6;
  std::string dtype = "bfloat16", device = "cpu";
  bool product = false, copies = false, spans = false, profile = false;
};

// Tokens or targets of a microbatch, and each call gives others.
class RandomTokens {
 public:
  std::vector<int32_t> next(size_t count) {
    std::vector<int32_t> tokens(count);
    for (int32_t& token : tokens) token = any_(random_);
    return tokens;
  }

 private:
  std::mt19937 random_{1};
  std::uniform_int_distribution<int32_t> any_{0, static_cast<int32_t>(kTiny.vocab_size) - 1};
};

kernels::DType dtype_of(const std::string& name) {
  if (name == "float32") return kernels::DType::kFloat32;
  return name == "float16" ? kernels::DType::kFloat16 : kernels::DType::kBFloat16;
}

std::unique_ptr<kernels::DeviceOps> make_ops(const Options& options) {
  const auto chosen = worker::choose_device(options.device, options.threads, worker::kLinkedGpus);
  if (!chosen) throw std::runtime_error(chosen.error());
  return chosen->make_ops(dtype_of(options.dtype));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// CPU time of all threads: beside the wall clock it tells a busy machine from a slow kernel.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Operations a second of one linear layer of kSide inputs, outputs and rows, of which the product is nearly all.
void run_product(const Options& options) {
  constexpr int64_t kSide = 2048, kRuns = 12;
  const auto ops = make_ops(options);
  std::vector<float> numbers(static_cast<size_t>(kSide * kSide));
  std::mt19937 random(1);
  for (float& x : numbers) x = static_cast<float>(random() % 2001) / 1000 - 1;
  const size_t bytes = numbers.size() * sizeof(float);
  model::DeviceBuffer source(*ops, bytes), in(*ops, bytes), weight(*ops, bytes), out(*ops, bytes), bias(*ops, bytes);
  ops->copy_to_device(source.data<float>(), numbers.data(), bytes);
  ops->cast(in.data<kernels::Act>(), source.data<float>(), kSide * kSide);
  ops->cast(weight.data<kernels::Act>(), source.data<float>(), kSide * kSide);
  ops->zero(bias.data<float>(), bytes);
  double best_s = 1e9;
  for (int64_t i = 0; i < kRuns; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    ops->matmul_forward(out.data<kernels::Act>(), nullptr, in.data<kernels::Act>(), weight.data<kernels::Act>(),
                        bias.data<float>(), kernels::Epilogue::kNone, kSide, kSide, kSide);
    ops->synchronize();
    best_s = std::min(best_s, seconds_since(begin));
  }
  std::printf("{\"rate\": %.0f, \"numerics\": \"%s\"}\n", 2.0 * kSide * kSide * kSide / best_s, ops->info().numerics.c_str());
}

// Bytes a second between the device and staging memory, each way, the best of a few times.
void run_copies(const Options& options) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int kRuns = 6;
  const auto ops = make_ops(options);
  model::DeviceBuffer on_device(*ops, kBytes);
  ops->zero(on_device.data<void>(), kBytes);
  void* const staging = ops->allocate_staging(kBytes);
  double to_host_s = 1e9, to_device_s = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    ops->synchronize();
    auto begin = std::chrono::steady_clock::now();
    ops->finish_copy(ops->begin_copy_to_host(staging, on_device.data<void>(), kBytes));
    to_host_s = std::min(to_host_s, seconds_since(begin));
    begin = std::chrono::steady_clock::now();
    ops->begin_copy_to_device(on_device.data<void>(), staging, kBytes);
    ops->synchronize();
    to_device_s = std::min(to_device_s, seconds_since(begin));
  }
  ops->release_staging(staging);
  std::printf("{\"to_host_bytes_per_second\": %.0f, \"to_device_bytes_per_second\": %.0f}\n", kBytes / to_host_s,
              kBytes / to_device_s);
}

// Nanoseconds that an empty span takes.
double span_ns(int64_t spans) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < spans; ++i) const worker::Span span(worker::SpanKind::kOther, "nothing");
  return seconds_since(begin) * 1e9 / static_cast<double>(spans);
}

void time_empty_spans() {
  constexpr int64_t kSpans = 1'000'000, kRuns = 5;
  double off_ns = 1e9, recorded_ns = 1e9;
  for (int64_t run = 0; run < kRuns; ++run) {
    off_ns = std::min(off_ns, span_ns(10 * kSpans));
    worker::start_recording(kSpans, 1);
    recorded_ns = std::min(recorded_ns, span_ns(kSpans));
    worker::stop_recording();
  }
  std::printf("{\"empty_span_off_ns\": %.2f, \"empty_span_recorded_ns\": %.1f}\n", off_ns, recorded_ns);
}

// The two models train side by side on the same tokens, so that what the machine does besides meets both alike.
void run_spans(const Options& options) {
  time_empty_spans();
  constexpr int64_t kSpansMax = 1'000'000;
  struct Model {
    explicit Model(std::unique_ptr<kernels::DeviceOps> its, int64_t batch)
        : ops(std::move(its)), gpt2(kTiny, *ops, batch), state((gpt2.initialize(1), gpt2), *ops) {}
    std::unique_ptr<kernels::DeviceOps> ops;
    model::Gpt2 gpt2;
    model::TrainState state;
  };
  Model plain(make_ops(options), options.batch), recorded(worker::with_spans(make_ops(options)), options.batch);
  const std::vector<int32_t> tokens(static_cast<size_t>(options.batch * kTiny.block_size), 7);
  for (int64_t step = 0; step < options.steps; ++step) {
    for (const char* kind : {"plain", "off", "recorded"}) {
      Model& its = kind == std::string("plain") ? plain : recorded;
      const bool records = kind == std::string("recorded");
      if (records) worker::start_recording(kSpansMax, 1);
      const double cpu_begin = cpu_seconds();
      const auto begin = std::chrono::steady_clock::now();
      its.gpt2.train_microbatch(tokens, tokens);
      its.state.apply(kOptimizer, its.gpt2.gradients());
      const double wall_s = seconds_since(begin), cpu_s = cpu_seconds() - cpu_begin;
      size_t spans = 0;
      if (records) {
        for (const auto& track : worker::stop_recording().tracks) spans += track.spans.size();
      }
      std::printf("{\"step\": %ld, \"spans\": \"%s\", \"step_s\": %.6f, \"cpu_s\": %.6f, \"recorded\": %zu}\n",
                  static_cast<long>(step), kind, wall_s, cpu_s, spans);
      std::fflush(stdout);
    }
  }
}

// An op's share of the steps that were recorded. On the host, calls are the ops themselves.
struct OpTimes {
  int64_t calls = 0, call_ns = 0, device_ns = 0;
};

using OpsByName = std::map<std::string, OpTimes>;

void add_ops(OpsByName& by_op, const worker::Recording& recording, bool is_host) {
  for (const auto& track : recording.tracks) {
    const bool on_device = is_host || track.thread == "device";
    for (const auto& span : track.spans) {
      if (span.kind != worker::SpanKind::kOp && span.kind != worker::SpanKind::kCopy) continue;
      OpTimes& times = by_op[span.name];
      if (on_device) times.device_ns += span.duration_ns;
      if (is_host || !on_device) {
        ++times.calls;
        times.call_ns += span.duration_ns;
      }
    }
  }
}

void print_ops(const OpsByName& by_op, int64_t step_count, double steps_s) {
  const auto steps = static_cast<double>(step_count);
  std::vector<std::pair<std::string, OpTimes>> rows(by_op.begin(), by_op.end());
  std::ranges::stable_sort(rows, std::greater<>(), [](const auto& row) { return row.second.device_ns; });
  double on_device_s = 0;
  for (const auto& [name, times] : rows) {
    const double device_s = static_cast<double>(times.device_ns) * 1e-9;
    on_device_s += device_s;
    std::printf("{\"op\": \"%s\", \"calls\": %.1f, \"device_s\": %.6f, \"call_s\": %.6f, \"share\": %.4f}\n", name.c_str(),
                static_cast<double>(times.calls) / steps, device_s / steps, static_cast<double>(times.call_ns) * 1e-9 / steps,
                device_s / steps_s);
  }
  std::printf("{\"step_s\": %.6f, \"on_device_s\": %.6f}\n", steps_s / steps, on_device_s / steps);
}

void run_profile(const Options& options) {
  constexpr int64_t kSpansMax = 10'000'000;
  const auto ops = worker::with_spans(make_ops(options));
  const bool is_host = ops->memory_is_host();
  model::Gpt2 gpt2(kTiny, *ops, options.batch);
  gpt2.initialize(1);
  model::TrainState state(gpt2, *ops);
  RandomTokens random;
  const auto count = static_cast<size_t>(options.batch * kTiny.block_size);
  const std::vector<int32_t> tokens = random.next(count), targets = random.next(count);
  OpsByName by_op;
  double steps_s = 0;
  for (int64_t step = 0; step <= options.steps; ++step) {
    worker::start_recording(kSpansMax, 1);
    const auto begin = std::chrono::steady_clock::now();
    gpt2.train_microbatch(tokens, targets);
    state.apply(kOptimizer, gpt2.gradients());
    worker::bring_later_spans();
    const double step_s = seconds_since(begin);
    const worker::Recording recording = worker::stop_recording();
    if (step == 0) continue;  // it sets up scratch
    steps_s += step_s;
    add_ops(by_op, recording, is_host);
  }
  print_ops(by_op, options.steps, steps_s);
  std::printf("{\"numerics\": \"%s\"}\n", ops->info().numerics.c_str());
}

void run(const Options& options) {
  const auto ops = make_ops(options);
  model::Gpt2 gpt2(kTiny, *ops, options.batch);
  gpt2.initialize(1);
  model::TrainState state(gpt2, *ops);
  RandomTokens random;
  const auto count = static_cast<size_t>(options.batch * kTiny.block_size);
  for (int64_t step = 0; step < options.steps; ++step) {
    const std::vector<int32_t> tokens = random.next(count), targets = random.next(count);
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_begin = cpu_seconds();
    const double loss = gpt2.train_microbatch(tokens, targets);
    if (step == 0) {  // two devices are compared by it (ops/check_gpu)
      std::printf("{\"first_loss\": %.6f, \"first_gradient_norm\": %.6f}\n", loss,
                  std::sqrt(ops->sum_of_squares(gpt2.gradients(), gpt2.table().total)));
    }
    state.apply(kOptimizer, gpt2.gradients());
    const double wall_s = seconds_since(begin);
    std::printf("{\"step\": %ld, \"loss\": %.4f, \"step_s\": %.4f, \"cpu_s\": %.4f, \"tokens_per_second\": %.0f}\n",
                static_cast<long>(step), loss, wall_s, cpu_seconds() - cpu_begin, static_cast<double>(count) / wall_s);
    std::fflush(stdout);
  }
  const auto use = gpt2.memory_use();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"numerics\": \"%s\", \"peak_rss_bytes\": %ld, \"parameters_bytes\": %zu, \"cast_parameters_bytes\": %zu, "
      "\"gradients_bytes\": %zu, \"moments_bytes\": %zu, \"activations_bytes\": %zu, \"state_hash\": \"%s\", \"replays\": %ld, "
      "\"graph_refusal\": \"%s\"}\n",
      ops->info().numerics.c_str(), usage.ru_maxrss * 1024, use.parameters, use.cast_parameters, use.gradients,
      2 * use.parameters, use.activations, state.hash().c_str(), static_cast<long>(gpt2.pass().replays()),
      gpt2.pass().refusal().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times training steps of GPT-2 Tiny without service or network");
  app.add_option("--threads", options.threads, "threads of the op set")->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "sequences of 512 tokens in a microbatch")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps to run")->check(CLI::PositiveNumber);
  app.add_option("--dtype", options.dtype, "activations")->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--device", options.device, "op set: cpu, ref, hip, hip:N");
  app.add_flag("--product", options.product, "time a product of 2048 x 2048 matrices instead of steps");
  app.add_flag("--copies", options.copies, "time copies between the device and the host instead of steps");
  app.add_flag("--profile", options.profile, "the ops of a step and how long each takes on the device");
  app.add_flag("--spans", options.spans, "time steps without spans, with them, and while they are recorded");
  CLI11_PARSE(app, argc, argv);
  if (!worker::is_device_name(options.device)) {
    std::fprintf(stderr, "bench_step: --device is \"%s\": expected cpu, ref, hip or hip:N\n", options.device.c_str());
    return 2;
  }
  try {
    if (options.product) {
      run_product(options);
    } else if (options.copies) {
      run_copies(options);
    } else if (options.spans) {
      run_spans(options);
    } else if (options.profile) {
      run_profile(options);
    } else {
      run(options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_step: %s\n", error.what());
    return 1;
  }
  return 0;
}
