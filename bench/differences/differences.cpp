// The differences of a 16-bit copy of the weights from the copy of the step before, on a real run: how much there is in them,
// and what coders get. One worker trains in bfloat16 on the cpu op set, on tokens that `holdfast prepare` wrote. Prints one
// JSON object for each kind of tensor at each step of --at, and one for all that have a copy (matrices but for wpe), in bits an
// element: entropies of the difference in ULPs, by itself, given the element's magnitude class (which the coder uses), and
// given the class and the element's last difference (for which every rank would have to keep more); then the coder's. The
// object of all has its speed, too, the best of five runs in bytes of plain copy a second, and what other coders get:
//   copy_zstd         zstd of the new copy, without the one before: two planes of bytes, level 1, as in checkpoints
//   bytes_zstd        differences as bytes (255: two more follow at the end), zstd level 1
//   bytes_huffman     the same bytes, zlib with Huffman codes alone: one table a chunk
// --copy float16 rounds the same run's masters to float16 instead: what a float16 job would have, but for its own gradients.
//
//   bench_differences --data FOLDER/train.bin --rate 6e-4 --at 10,100,1000
//   bench_differences --data FOLDER/train.bin --layers 6 --channels 384 --heads 6 --vocab 50257 --block 512 --batch 2 --at
//   10,100
#include <zlib.h>
#include <zstd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/data/token_file.h"
#include "model/data/training_data.h"
#include "model/gpt2.h"
#include "model/state/train_state.h"
#include "worker/collectives/half_floats.h"
#include "worker/sharding/differences.h"
#include "worker/sharding/ulps.h"

namespace {

using namespace holdfast;

constexpr size_t kChunkElements = 65536;

struct Options {
  std::string data, copy = "bfloat16";
  model::Gpt2Config model{.n_layer = 4, .n_embd = 256, .n_head = 4, .vocab_size = 8192, .block_size = 128};
  int64_t batch = 4, warmup = 100, schedule = 20000;
  double rate = 6e-4;
  int threads = 1;
  std::vector<int64_t> at = {10, 100, 1000};
};

using Copy = std::vector<uint16_t>;
using Range = model::Elements;

// The copies after the steps s - 2, s - 1 and s.
struct Copies {
  Copy before_last, before, after;
};

std::string kind_of(const std::string& name) {
  if (name == "wte.weight" || name == "wpe.weight") return name.substr(0, 3);
  if (name.find("ln_") != std::string::npos) return "norms";
  if (name.ends_with(".bias")) return "biases";
  return name.find("c_attn") != std::string::npos ? "qkv" : name.find("c_fc") != std::string::npos ? "fc" : "projections";
}

bool has_copy(const std::string& kind) {
  return kind != "wpe" && kind != "norms" && kind != "biases";
}

// Symbols counted apart for each context; the entropy is of a symbol given its context, in bits.
class Counts {
 public:
  void add(int context, int symbol) { ++counts_[context][symbol]; }
  double entropy_bits() const {
    double bits = 0, all = 0;
    for (const auto& [context, symbols] : counts_) {
      double sum = 0;
      for (const auto& [symbol, count] : symbols) sum += static_cast<double>(count);
      for (const auto& [symbol, count] : symbols)
        bits -= static_cast<double>(count) * std::log2(static_cast<double>(count) / sum);
      all += sum;
    }
    return bits / all;
  }

 private:
  std::map<int, std::map<int, int64_t>> counts_;
};

std::vector<Range> chunks_of(const std::vector<Range>& tensors) {
  std::vector<Range> chunks;
  for (const Range& tensor : tensors) {
    const auto step = static_cast<int64_t>(kChunkElements);
    for (int64_t i = 0; i < tensor.count; i += step) chunks.push_back({tensor.first + i, std::min(step, tensor.count - i)});
  }
  return chunks;
}

std::span<const uint16_t> part(const Copy& copy, const Range& chunk) {
  return {copy.data() + chunk.first, static_cast<size_t>(chunk.count)};
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Coded {
  size_t bytes = 0;
  double encode_s = 0, decode_s = 0;
};

Coded code(const Copies& copies, const std::vector<Range>& chunks) {
  worker::DifferenceEncoder encoder;
  worker::DifferenceDecoder decoder;
  Coded coded;
  for (const Range& chunk : chunks) {
    const auto before = part(copies.before, chunk), after = part(copies.after, chunk);
    Copy receivers(before.begin(), before.end());
    const double begin = now_s();
    const auto bytes = encoder.encode(before, after);
    const double encoded = now_s();
    const auto done = decoder.decode(bytes, receivers);
    coded.decode_s += now_s() - encoded;
    coded.encode_s += encoded - begin;
    coded.bytes += bytes.size();
    if (!done) throw std::runtime_error(done.error());
    if (!std::ranges::equal(receivers, after)) throw std::runtime_error("the coder is not lossless");
  }
  return coded;
}

size_t zstd_bytes(const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> packed(ZSTD_compressBound(bytes.size()));
  return ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1);
}

size_t huffman_bytes(std::vector<uint8_t> bytes) {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, -15, 9, Z_HUFFMAN_ONLY);
  std::vector<uint8_t> packed(2 * bytes.size() + 64);
  stream.next_in = bytes.data();
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return packed.size() - stream.avail_out;
}

std::vector<uint8_t> planes(std::span<const uint16_t> copy) {
  std::vector<uint8_t> bytes;
  for (const uint16_t bits : copy) bytes.push_back(static_cast<uint8_t>(bits));
  for (const uint16_t bits : copy) bytes.push_back(static_cast<uint8_t>(bits >> 8));
  return bytes;
}

std::vector<uint8_t> difference_bytes(std::span<const uint16_t> before, std::span<const uint16_t> after) {
  std::vector<uint8_t> bytes, large;
  for (size_t i = 0; i < before.size(); ++i) {
    const uint16_t folded = worker::folded_difference(before[i], after[i]);
    bytes.push_back(static_cast<uint8_t>(std::min<uint16_t>(folded, 255)));
    if (folded >= 255) large.insert(large.end(), {static_cast<uint8_t>(folded), static_cast<uint8_t>(folded >> 8)});
  }
  bytes.insert(bytes.end(), large.begin(), large.end());
  return bytes;
}

void print_others(const Copies& copies, const std::vector<Range>& chunks, double elements) {
  size_t copy_zstd = 0, bytes_zstd = 0, bytes_huffman = 0;
  for (const Range& chunk : chunks) {
    copy_zstd += zstd_bytes(planes(part(copies.after, chunk)));
    const auto bytes = difference_bytes(part(copies.before, chunk), part(copies.after, chunk));
    bytes_zstd += zstd_bytes(bytes);
    bytes_huffman += huffman_bytes(bytes);
  }
  std::printf(", \"copy_zstd\": %.3f, \"bytes_zstd\": %.3f, \"bytes_huffman\": %.3f",
              8 * static_cast<double>(copy_zstd) / elements, 8 * static_cast<double>(bytes_zstd) / elements,
              8 * static_cast<double>(bytes_huffman) / elements);
}

void print_kind(int64_t step, const std::string& kind, const Copies& copies, const std::vector<Range>& tensors, bool all) {
  constexpr int kLastMax = 40;  // beyond it, last differences are one context
  Counts plain, by_class, by_class_and_last;
  int64_t elements = 0, zeros = 0;
  for (const Range& tensor : tensors) {
    for (auto i = static_cast<size_t>(tensor.first); i < static_cast<size_t>(tensor.first + tensor.count); ++i) {
      const int folded = worker::folded_difference(copies.before[i], copies.after[i]);
      const int last = std::min<int>(worker::folded_difference(copies.before_last[i], copies.before[i]), 2 * kLastMax);
      const int magnitude = worker::magnitude_class(copies.before[i]);
      plain.add(0, folded);
      by_class.add(magnitude, folded);
      by_class_and_last.add(last * 256 + magnitude, folded);
      zeros += folded == 0;
    }
    elements += tensor.count;
  }
  const auto count = static_cast<double>(elements);
  const auto chunks = chunks_of(tensors);
  Coded coded = code(copies, chunks);
  for (int run = 0; all && run < 4; ++run) {
    const Coded again = code(copies, chunks);
    coded = {again.bytes, std::min(coded.encode_s, again.encode_s), std::min(coded.decode_s, again.decode_s)};
  }
  std::printf(
      "{\"step\": %ld, \"kind\": \"%s\", \"elements\": %ld, \"zeros\": %.3f, \"entropy\": %.3f, \"given_class\": %.3f, "
      "\"given_class_and_last\": %.3f, \"coded\": %.3f",
      static_cast<long>(step), kind.c_str(), static_cast<long>(elements), static_cast<double>(zeros) / count,
      plain.entropy_bits(), by_class.entropy_bits(), by_class_and_last.entropy_bits(),
      8 * static_cast<double>(coded.bytes) / count);
  if (all) {
    std::printf(", \"encode_bytes_per_second\": %.0f, \"decode_bytes_per_second\": %.0f", 2 * count / coded.encode_s,
                2 * count / coded.decode_s);
    print_others(copies, chunks, count);
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void print_step(int64_t step, const Copies& copies, const model::ParameterTable& table) {
  std::map<std::string, std::vector<Range>> kinds;
  std::vector<Range> copied;
  for (const model::Parameter& tensor : table.entries) {
    const std::string kind = kind_of(tensor.name);
    kinds[kind].push_back({tensor.offset, tensor.count});
    if (has_copy(kind)) copied.push_back({tensor.offset, tensor.count});
  }
  for (const auto& [kind, tensors] : kinds) print_kind(step, kind, copies, tensors, false);
  print_kind(step, "all", copies, copied, true);
}

template <typename Half>
Copy narrowed(std::span<const float> masters) {
  std::vector<Half> halves(masters.size());
  worker::narrow(masters, halves);
  Copy copy(masters.size());
  std::ranges::transform(halves, copy.begin(), &Half::bits);
  return copy;
}

void run(const Options& options) {
  const auto file = model::TokenFile::open(options.data);
  if (!file) throw std::runtime_error(file.error());
  const auto tokens = (*file)->tokens();
  if (const auto checked = (*file)->check_ids(options.model.vocab_size); !checked) throw std::runtime_error(checked.error());
  if (static_cast<int64_t>(tokens.size()) <= options.model.block_size)
    throw std::runtime_error(options.data + " has less than a sequence of tokens");
  const model::TrainingData data({{.tokens = tokens}}, 1, {options.batch, options.model.block_size, 1});
  const model::OptimizerConfig optimizer{.learning_rate = options.rate,
                                         .min_lr = options.rate / 10,
                                         .warmup_steps = options.warmup,
                                         .total_steps = options.schedule,
                                         .weight_decay = 0.1,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .grad_clip = 1.0};
  const auto ops = kernels::make_cpu_ops(kernels::DType::kBFloat16, options.threads);
  model::Gpt2 gpt2(options.model, *ops, options.batch);
  gpt2.initialize(1);
  model::TrainState state(gpt2, *ops);
  const auto copy_now = [&] {
    const std::span<const float> masters(gpt2.parameters(), static_cast<size_t>(gpt2.table().total));
    return options.copy == "float16" ? narrowed<worker::Float16>(masters) : narrowed<worker::BFloat16>(masters);
  };
  std::vector<int32_t> inputs(static_cast<size_t>(options.batch * options.model.block_size)), targets(inputs.size());
  Copies copies{{}, {}, copy_now()};
  for (int64_t step = 1; step <= *std::ranges::max_element(options.at); ++step) {
    data.fill(step - 1, 0, inputs, targets);
    const double loss = gpt2.train_microbatch(inputs, targets);
    state.apply(optimizer, gpt2.gradients());
    copies = {std::move(copies.before), std::move(copies.after), copy_now()};
    if (std::ranges::find(options.at, step) == options.at.end()) continue;
    std::printf("{\"step\": %ld, \"loss\": %.3f, \"learning_rate\": %.2e}\n", static_cast<long>(step), loss,
                model::learning_rate_at(optimizer, step - 1));
    print_step(step, copies, gpt2.table());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the differences of a 16-bit copy of the weights from step to step, and their coder");
  app.add_option("--data", options.data, "a file of tokens, as holdfast prepare writes it")->required();
  app.add_option("--copy", options.copy, "type of the copies")->check(CLI::IsMember({"bfloat16", "float16"}));
  app.add_option("--layers", options.model.n_layer, "layers");
  app.add_option("--channels", options.model.n_embd, "channels");
  app.add_option("--heads", options.model.n_head, "heads");
  app.add_option("--vocab", options.model.vocab_size, "vocabulary");
  app.add_option("--block", options.model.block_size, "tokens in a sequence");
  app.add_option("--batch", options.batch, "sequences in a step")->check(CLI::PositiveNumber);
  app.add_option("--rate", options.rate, "learning rate after warm-up");
  app.add_option("--warmup", options.warmup, "steps of warm-up");
  app.add_option("--schedule", options.schedule, "steps to the end of the cosine, at a tenth of the rate");
  app.add_option("--threads", options.threads, "threads of the op set")->check(CLI::PositiveNumber);
  app.add_option("--at", options.at, "steps to look at, from 2 on")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 40));
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_differences: %s\n", error.what());
    return 1;
  }
  return 0;
}
