#include "model/exchange/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/exchange/hugging_face.h"

namespace holdfast::model {

namespace {

const char* safetensors_name(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? "F32" : dtype == kernels::DType::kFloat16 ? "F16" : "BF16";
}

// Written entry by entry: an ordered JSON object looks through all of its names for each one that is added.
std::string header_of(std::span<const FileTensor> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t at = 0;
  for (const FileTensor& tensor : tensors) {
    const nlohmann::ordered_json entry = {
        {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes()}}};
    text += fmt::format(",{}:{}", nlohmann::json(tensor.name).dump(), entry.dump());
    at += tensor.bytes();
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

std::vector<FileTensor> hugging_face_tensors(const Gpt2Config& config, kernels::DType dtype) {
  const ParameterTable table(config);
  std::vector<FileTensor> tensors;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    const Parameter& parameter = table.entries[i];
    tensors.push_back(file_tensor(table, i, hugging_face_name(parameter), dtype, hugging_face_layout(parameter)));
  }
  std::ranges::sort(tensors, {}, &FileTensor::name);
  return tensors;
}

tl::expected<void, std::string> write_safetensors(const WeightSource& source, std::span<const FileTensor> tensors,
                                                  const ByteSink& sink) {
  const std::string header = header_of(tensors);
  const auto length = static_cast<uint64_t>(header.size());
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  return for_each_tensor(source, tensors,
                         [&](const FileTensor& tensor, std::span<const float> values) { return encode(tensor, values, sink); });
}

}  // namespace holdfast::model
