#include "ops/cli/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "model/exchange/checkpoint_config.h"
#include "ops/cli/command/api.h"
#include "ops/cli/command/command.h"

namespace holdfast::ops {

model::Gpt2Config config_of(const storage::Manifest& manifest) {
  const model::Gpt2Config config = model::config_of(manifest);
  if (const auto problems = config.problems(); !problems.empty()) {
    throw Failure{kBadInput, fmt::format("the checkpoint's model cannot be built: {}", fmt::join(problems, "; "))};
  }
  return config;
}

tl::expected<std::unique_ptr<model::Tokenizer>, std::string> find_tokenizer(const std::string& named,
                                                                            const storage::Manifest& manifest) {
  const std::string path =
      named.empty() ? std::filesystem::path(text_at(manifest.spec, "train_data_path")).parent_path().string() : named;
  return model::Tokenizer::load(path.empty() ? "." : path).map_error([&](const std::string& error) {
    return named.empty() ? fmt::format("no tokenizer beside the training file ({}): give --tokenizer DIR", error) : error;
  });
}

}  // namespace holdfast::ops
