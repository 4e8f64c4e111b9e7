// An npz file, as numpy.load reads it: a zip archive in which each tensor is a .npy file, stored as it is.
//
// Promises: names are the parameter table's, matrices (out, in). Sizes and places are written with 64 bits everywhere, so an
// archive may be of any size. No time is in it: the same parameters give the same bytes. Memory: as for_each_tensor has it.
// Refuses: bfloat16, which numpy does not have.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/exchange/tensor_encoding.h"

namespace holdfast::model {

// Precondition: not bfloat16.
std::vector<FileTensor> npz_tensors(const Gpt2Config& config, kernels::DType dtype);

tl::expected<void, std::string> write_npz(const WeightSource& source, std::span<const FileTensor> tensors,
                                          const ByteSink& sink);

}  // namespace holdfast::model
