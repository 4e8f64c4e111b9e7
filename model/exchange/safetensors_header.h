// The JSON header of a safetensors file, from bytes that anybody may have made.
//
// Promises: the tensors that are returned lie end to end, without gap or overlap, and fill the data; each has as many bytes as
// its shape and type say. Memory: in proportion to the header, of which each entry is bounded; nesting is not followed.
// Refuses: all else, saying which entry is wrong and how. The errors do not name the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace holdfast::model {

// Far above any GPT-2's: one of 1024 layers has 12,292 tensors, whose header takes 2 MB.
inline constexpr int64_t kHeaderBytesMax = 16 << 20;
inline constexpr size_t kHeaderTensorsMax = 65536, kTensorDimensionsMax = 8;

struct StoredTensor {
  std::string name, dtype;  // "F32", "BF16", "I64", …: safetensors' own words
  std::vector<int64_t> shape;
  int64_t begin = 0, bytes = 0;  // from the beginning of the data
};

// In the order of their bytes.
tl::expected<std::vector<StoredTensor>, std::string> parse_safetensors_header(std::string_view json, int64_t data_bytes);

}  // namespace holdfast::model
