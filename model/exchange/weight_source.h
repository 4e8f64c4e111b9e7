// A model's parameters for whoever writes them to a file of another program: a few tensors at a time, from wherever they lie.
//
// Promises: `read` fills float32 tensors that are named and shaped as the table has them, matrices (out, in). Errors: a
// sentence that names what could not be read.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "model/parameter_table.h"
#include "storage/checkpoint.h"

namespace holdfast::model {

struct WeightSource {
  Gpt2Config config;
  std::function<tl::expected<void, std::string>(std::span<const storage::MutableTensor>)> read;
};

}  // namespace holdfast::model
