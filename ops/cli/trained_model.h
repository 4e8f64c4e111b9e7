// The model of a checkpoint: its sizes, and the tokenizer that it was trained with.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "model/data/tokenizer.h"
#include "model/parameter_table.h"
#include "storage/checkpoint.h"

namespace holdfast::ops {

// Throws a Failure where such a model cannot be built.
model::Gpt2Config config_of(const storage::Manifest& manifest);

// The tokenizer that was named, or else the one beside the training file. The error says what to give.
tl::expected<std::unique_ptr<model::Tokenizer>, std::string> find_tokenizer(const std::string& named,
                                                                            const storage::Manifest& manifest);

}  // namespace holdfast::ops
