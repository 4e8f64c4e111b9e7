// A GGUF file, version 3, of architecture gpt2, as llama.cpp loads it: metadata with the tokenizer in it, then the tensors.
//
// Promises: names, orientation and types are those of llama.cpp's own converter: of 16 bits are the matrices of layers and wte
// alone, and the head's, output.weight. Where that is tied there is none, and llama.cpp takes token_embd.weight. Memory: as
// for_each_tensor has it, and the vocabulary. Thread: any.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/exchange/tensor_encoding.h"
#include "model/exchange/tokenizer_kinds.h"

namespace holdfast::model {

std::vector<FileTensor> gguf_tensors(const Gpt2Config& config, kernels::DType dtype);

struct GgufDescription {
  std::string name;      // of the model, for people
  kernels::DType dtype;  // of most of it
  GgufTokenizer tokenizer;
};
tl::expected<void, std::string> write_gguf(const WeightSource& source, const GgufDescription& description,
                                           std::span<const FileTensor> tensors, const ByteSink& sink);

}  // namespace holdfast::model
