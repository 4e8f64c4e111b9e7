// A safetensors file: 8 bytes with the length of a JSON header, the header, then the tensors' bytes, end to end.
//
// Promises: tensors lie in the order in which they are given; the header is padded with blanks to a multiple of 8 bytes, as
// Hugging Face's own writer does it. Memory: as for_each_tensor has it. Thread: any.
#pragma once

#include <span>
#include <string>
#include <tl/expected.hpp>

#include "model/exchange/tensor_encoding.h"

namespace holdfast::model {

// In the order of names, as Hugging Face's writer has it: matrices and vectors of GPT2LMHeadModel.
std::vector<FileTensor> hugging_face_tensors(const Gpt2Config& config, kernels::DType dtype);

tl::expected<void, std::string> write_safetensors(const WeightSource& source, std::span<const FileTensor> tensors,
                                                  const ByteSink& sink);

}  // namespace holdfast::model
