// A GPT-2 that another program wrote as safetensors, read into the parameter table's layout.
//
// Promises: `read` gives float32 values, matrices (out, in), of files in F32, F16 or BF16: exact. Names may begin with
// "transformer." or not. Left aside, as they are no parameters: the causal masks h.N.attn.bias and h.N.attn.masked_bias of
// older files, and the lm_head.weight of a model that is tied, where it is the same as wte. Memory: headers, and kPieceBytes
// while a tensor is read. Refuses: another architecture, a GPT-2 that computes otherwise, tensors that are missing, left over
// or of another shape, by name; a file that is no safetensors file. Errors name the file. Thread: any, one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/exchange/safetensors_file.h"
#include "model/parameter_table.h"

namespace holdfast::model {

class HuggingFaceModel {
 public:
  // `path`: a folder with config.json and model.safetensors or model.safetensors.index.json; or one of these two files, with
  // config.json beside it.
  static tl::expected<HuggingFaceModel, std::string> open(const std::string& path);

  const Gpt2Config& config() const { return config_; }
  const ParameterTable& table() const { return table_; }
  // `values`: as many as the tensor of the table has.
  tl::expected<void, std::string> read(size_t tensor, std::span<float> values) const;

 private:
  struct Source {
    size_t file = 0;
    const StoredTensor* tensor = nullptr;
  };

  HuggingFaceModel(const Gpt2Config& config, std::vector<SafetensorsFile> files);
  tl::expected<void, std::string> find_all(const std::string& origin);
  tl::expected<void, std::string> check_head(const Source& head) const;

  Gpt2Config config_;
  ParameterTable table_;
  std::vector<SafetensorsFile> files_;
  std::vector<Source> sources_;  // by tensor of the table
};

}  // namespace holdfast::model
