// Parameters for exports, and where a test has them.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "model/exchange/weight_source.h"
#include "model/random.h"

namespace holdfast::model {

// No two sizes are the same, so that no wrong one fits.
inline const Gpt2Config kExchangeConfig = {.n_layer = 2, .n_embd = 12, .n_head = 3, .vocab_size = 261, .block_size = 7};

// The same with a head of its own.
inline Gpt2Config untied_exchange_config() {
  Gpt2Config config = kExchangeConfig;
  config.ties_head = false;
  return config;
}

inline std::vector<float> random_parameters(const Gpt2Config& config, uint64_t seed = 1) {
  std::vector<float> values(static_cast<size_t>(ParameterTable(config).total));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal_at(seed, 3, i));
  return values;
}

// `values`: in table order; they outlive it.
inline WeightSource parameters_in(const Gpt2Config& config, const std::vector<float>& values) {
  return {config, [config, &values](std::span<const storage::MutableTensor> tensors) -> tl::expected<void, std::string> {
            const ParameterTable table(config);
            for (const storage::MutableTensor& tensor : tensors)
              std::memcpy(tensor.bytes.data(), values.data() + table[tensor.name].offset, tensor.bytes.size());
            return {};
          }};
}

}  // namespace holdfast::model
