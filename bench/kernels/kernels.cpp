// The ops that memory limits, beside a plain copy: bytes a second, and the share of the copy's rate that an op has.
//
//   bench_kernels --threads 1 --dtype bfloat16
//
// Prints one JSON object an op and shape. An op's bytes are those that it must read and write once, and so are the copy's: half
// of as many are copied, so that both go through as much memory. (A copy that the C library makes past the cache need not read
// what it overwrites; ops that write into sums do.) Each op and its copy run in turn; the medians count.
//
// Bytes an element, with e of the activation type:
//   adamw                 28 (parameter, both moments, gradient read; the first three written)
//   layernorm_forward      8 + 2e (with the residual addition: stream and branch read, stream and output written)
//   layernorm_backward    12 + 2e (both gradients and the stream read; the stream's gradient and its cast written)
//   fixed_accumulate      12 (sum and gradient read, sum written; int32), 8 (int16)
//   fixed_unpack           8 (int32), 6 (int16)     abs_max, sum_of_squares, sums_of_squares   4     float_accumulate   12
//   cast                   4 + e
// Refuses: float16, which the cpu op set does not have.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "model/device_buffer.h"

namespace {

using namespace holdfast;
using kernels::Act;
using model::DeviceBuffer;

constexpr int64_t kTiny = 30142848;  // the parameters of GPT-2 Tiny
constexpr int64_t kWidth = 384;      // and its channels
constexpr int64_t kChunk = 65536;    // elements of which the gradient's norm takes a sum each
constexpr int kExponent = 10, kNarrowExponent = 4;
constexpr kernels::AdamWStep kStep{.learning_rate = 1e-4F,
                                   .beta1 = 0.9F,
                                   .beta2 = 0.95F,
                                   .epsilon = 1e-8F,
                                   .weight_decay = 0.1F,
                                   .beta1_correction = 0.1F,
                                   .beta2_correction = 0.05F,
                                   .gradient_scale = 1.0F};

struct Options {
  int threads = 1, passes = 9;
  std::string dtype = "bfloat16";
};

struct Case {
  std::string op, shape;
  int64_t bytes;
  std::function<void()> run;
};

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        ops_(kernels::make_cpu_ops(options.dtype == "float32" ? kernels::DType::kFloat32 : kernels::DType::kBFloat16,
                                   options.threads)),
        element_(static_cast<int64_t>(kernels::dtype_size(ops_->activation_dtype()))) {
    for (int i = 0; i < 4; ++i) floats_.push_back(random_floats());
    for (int i = 0; i < 3; ++i) {
      acts_.emplace_back(*ops_, static_cast<size_t>(kTiny * element_));
      ops_->cast(acts_.back().data<Act>(), floats(i), kTiny);
    }
    // Second moments are squares.
    for (int64_t i = 0; i < kTiny; ++i) floats(2)[i] *= floats(2)[i];
    sums_ = DeviceBuffer(*ops_, static_cast<size_t>(kTiny) * sizeof(int32_t));
    ops_->zero(sums_.data<void>(), sums_.bytes());
    for (int64_t at = 0; at < kTiny; at += kChunk) chunks_.push_back({floats(3) + at, std::min(kChunk, kTiny - at)});
    chunk_sums_.resize(chunks_.size());
  }

  void run() {
    std::vector<Case> cases = cases_of_parameters();
    for (const int64_t rows : {2048, 16384}) {
      for (Case& each : cases_of_layernorm(rows)) cases.push_back(std::move(each));
    }
    for (const Case& each : cases) report(each);
  }

 private:
  float* floats(int i) { return floats_[static_cast<size_t>(i)].data<float>(); }
  Act* acts(int i) { return acts_[static_cast<size_t>(i)].data<Act>(); }

  DeviceBuffer random_floats() {
    std::mt19937 random(static_cast<uint32_t>(floats_.size() + 1));
    std::vector<float> numbers(static_cast<size_t>(kTiny));
    for (float& x : numbers) x = static_cast<float>(random() % 2001) / 1000 - 1;
    DeviceBuffer buffer(*ops_, numbers.size() * sizeof(float));
    ops_->copy_to_device(buffer.data<float>(), numbers.data(), buffer.bytes());
    return buffer;
  }

  std::vector<Case> cases_of_parameters() {
    const std::string shape = std::to_string(kTiny);
    auto* sums = sums_.data<int32_t>();
    auto* narrow = sums_.data<int16_t>();
    return {
        {"adamw", shape, 28 * kTiny, [=, this] { ops_->adamw(floats(0), floats(1), floats(2), floats(3), kTiny, kStep); }},
        {"fixed_accumulate int32", shape, 12 * kTiny,
         [=, this] { ops_->fixed_accumulate(sums, floats(3), kTiny, kExponent, false); }},
        {"fixed_accumulate int16", shape, 8 * kTiny,
         [=, this] { ops_->fixed_accumulate(narrow, floats(3), kTiny, kNarrowExponent, false); }},
        {"fixed_unpack int16", shape, 6 * kTiny, [=, this] { ops_->fixed_unpack(floats(1), narrow, kTiny, 1e-3F); }},
        {"fixed_unpack int32", shape, 8 * kTiny, [=, this] { ops_->fixed_unpack(floats(1), sums, kTiny, 1e-3F); }},
        {"float_accumulate", shape, 12 * kTiny, [=, this] { ops_->float_accumulate(floats(0), floats(3), kTiny, false); }},
        {"abs_max", shape, 4 * kTiny, [=, this] { ops_->abs_max(floats(3), kTiny); }},
        {"sum_of_squares", shape, 4 * kTiny, [=, this] { ops_->sum_of_squares(floats(3), kTiny); }},
        {"sums_of_squares", shape, 4 * kTiny,
         [=, this] { ops_->sums_of_squares(chunk_sums_.data(), chunks_.data(), chunks_.size()); }},
        {"cast", shape, (4 + element_) * kTiny, [=, this] { ops_->cast(acts(0), floats(3), kTiny); }},
    };
  }

  std::vector<Case> cases_of_layernorm(int64_t rows) {
    const int64_t count = rows * kWidth;
    const std::string shape = std::to_string(rows) + " x " + std::to_string(kWidth);
    // Weight, bias and their gradients are at the end of a buffer, the statistics before them.
    float* last = floats(1) + kTiny - 4 * kWidth;
    float* mean = last - 2 * rows;
    float* rstd = last - rows;
    return {{"layernorm_forward", shape, (8 + 2 * element_) * count,
             [=, this] {
               ops_->layernorm_forward(acts(0), floats(0), mean, rstd, floats(3), acts(1), last, last + kWidth, rows, kWidth);
             }},
            {"layernorm_backward", shape, (12 + 2 * element_) * count, [=, this] {
               ops_->layernorm_backward(floats(2), acts(1), last + 2 * kWidth, last + 3 * kWidth, acts(2), floats(3), last,
                                        mean, rstd, rows, kWidth);
             }}};
  }

  // `bytes` copied from one place to another, each thread its part.
  static void copy(char* to, const char* from, size_t bytes, int threads) {
    const size_t part = bytes / static_cast<size_t>(threads);
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) {
      const size_t begin = part * static_cast<size_t>(i);
      const size_t size = i + 1 == threads ? bytes - begin : part;
      others.emplace_back([=] { std::memcpy(to + begin, from + begin, size); });
    }
    std::memcpy(to, from, threads == 1 ? bytes : part);
    for (std::thread& other : others) other.join();
  }

  void report(const Case& each) {
    const auto half = static_cast<size_t>(each.bytes / 2);
    DeviceBuffer from(*ops_, half), to(*ops_, half);
    ops_->zero(from.data<void>(), half);
    const auto plain = [&] { copy(to.data<char>(), from.data<char>(), half, options_.threads); };
    plain();
    each.run();  // the first time sets up scratch and touches pages
    std::vector<double> op_s, copy_s;
    for (int pass = 0; pass < options_.passes; ++pass) {
      op_s.push_back(seconds_of(each.run));
      copy_s.push_back(seconds_of(plain));
    }
    const auto rate = [&](double seconds) { return static_cast<double>(each.bytes) / seconds / 1e9; };
    std::printf(
        "{\"op\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"bytes\": %lld, \"gigabytes_per_s\": %.2f, "
        "\"copy_gigabytes_per_s\": %.2f, \"share_of_copy\": %.3f}\n",
        each.op.c_str(), each.shape.c_str(), options_.dtype.c_str(), options_.threads, static_cast<long long>(each.bytes),
        rate(median(op_s)), rate(median(copy_s)), median(copy_s) / median(op_s));
    std::fflush(stdout);
  }

  Options options_;
  std::unique_ptr<kernels::DeviceOps> ops_;
  int64_t element_;                   // bytes of an activation
  std::vector<DeviceBuffer> floats_;  // of kTiny elements each
  std::vector<DeviceBuffer> acts_;
  DeviceBuffer sums_;
  std::vector<kernels::DeviceOps::Floats> chunks_;  // of floats(3)
  std::vector<double> chunk_sums_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times the ops that memory limits, beside a plain copy");
  app.add_option("--threads", options.threads, "threads of the op set and of the copy")->check(CLI::Range(1, 1024));
  app.add_option("--passes", options.passes, "how often each is timed")->check(CLI::PositiveNumber);
  app.add_option("--dtype", options.dtype, "activations")->check(CLI::IsMember({"float32", "bfloat16"}));
  CLI11_PARSE(app, argc, argv);
  try {
    Bench(options).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_kernels: %s\n", error.what());
    return 1;
  }
  return 0;
}
