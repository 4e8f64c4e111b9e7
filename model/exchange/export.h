// A model's parameters, its tokenizer and its sizes as files of another program, in a folder.
//
//   safetensors  model.safetensors, config.json, generation_config.json and the tokenizer, as GPT2LMHeadModel.save_pretrained
//                of Hugging Face's transformers writes them
//   gguf         model.gguf, which llama.cpp loads, with the tokenizer in it
//   npz          model.npz for numpy, config.json with our names of the sizes, and the tokenizer as Holdfast has it
//
// Promises: values are the float32 parameters, rounded to nearest, ties to even. Each file appears whole or not at all; nothing
// in the folder changes before all of them are whole, and the one with the parameters appears last. Memory: about the largest
// tensor (tensor_encoding.h), and what the source takes. Refuses: a folder with files that this export does not write; a
// tokenizer with more tokens than the model has; GGUF without a tokenizer; npz in bfloat16; a folder or disk that cannot be
// written. Errors name the path. Thread: any; nobody else writes to the folder meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/ops.h"
#include "model/data/tokenizer.h"
#include "model/exchange/tensor_encoding.h"
#include "model/exchange/weight_source.h"

namespace holdfast::model {

enum class ExchangeFormat : uint8_t { kSafetensors, kGguf, kNpz };
inline constexpr const char* kExchangeFormats[] = {"safetensors", "gguf", "npz"};
std::optional<ExchangeFormat> exchange_format(std::string_view name);

struct ExportRequest {
  ExchangeFormat format = ExchangeFormat::kSafetensors;
  kernels::DType dtype = kernels::DType::kFloat32;
  const Tokenizer* tokenizer = nullptr;  // null: there is none
  std::string folder;                    // for export_model
  std::string name;                      // of the model, for people
};

// The files of an export for whoever puts them elsewhere than into a folder; the one with the parameters is last. `write` gives
// the same bytes however often it is called. The source, which they refer to, and the request's tokenizer outlive them.
struct FileContent {
  std::string name;
  std::function<tl::expected<void, std::string>(const ByteSink&)> write;
};
tl::expected<std::vector<FileContent>, std::string> export_files(const WeightSource& source, const ExportRequest& request);

struct ExportedFile {
  std::string path;
  int64_t bytes;
};
// The files, in the order in which they appeared.
tl::expected<std::vector<ExportedFile>, std::string> export_model(const WeightSource& source, const ExportRequest& request);

}  // namespace holdfast::model
