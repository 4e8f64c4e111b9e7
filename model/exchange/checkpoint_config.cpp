#include "model/exchange/checkpoint_config.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::model {

Gpt2Config config_of(const storage::Manifest& manifest) {
  const nlohmann::json& spec = manifest.spec;
  Gpt2Config config;
  for (const auto& [name, size] :
       {std::pair("n_layer", &config.n_layer), std::pair("n_embd", &config.n_embd), std::pair("n_head", &config.n_head),
        std::pair("vocab_size", &config.vocab_size), std::pair("block_size", &config.block_size)}) {
    if (spec.is_object() && spec.value(name, nlohmann::json()).is_number_integer()) spec[name].get_to(*size);
  }
  config.ties_head = !spec.is_object() || spec.value("tied_head", nlohmann::json()) != "off";
  return config;
}

}  // namespace holdfast::model
