// A small model as it is served, whose parameters every run has again, and a tokenizer of bytes.
#pragma once

#include <memory>

#include "model/data/byte_tokenizer.h"
#include "model/decode/decoder.h"
#include "tests/model/decode/known_values.h"
#include "tests/model/small_model.h"

namespace holdfast::worker {

inline constexpr model::Gpt2Config kServed = {.n_layer = 1, .n_embd = 16, .n_head = 2, .vocab_size = 256, .block_size = 96};

struct SmallServed {
  explicit SmallServed(uint64_t its_seed = 4) : seed(its_seed) {}
  uint64_t seed;
  std::unique_ptr<kernels::DeviceOps> ops = kernels::make_cpu_ops(kernels::DType::kFloat32, 1);
  model::SmallModel trained{kernels::make_cpu_ops(kernels::DType::kFloat32, 1), 1, kServed};
  std::unique_ptr<model::Decoder> decoder = std::move(*model::Decoder::make(
      kServed, *ops, model::KnownValues(model::perturbed_parameters(trained.gpt2, *trained.ops, seed), kServed),
      {.pages = 24, .rows = 32, .answers = 32}));
  std::unique_ptr<model::Tokenizer> tokenizer = model::make_byte_tokenizer();
};

}  // namespace holdfast::worker
