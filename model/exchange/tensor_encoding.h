// Parameters as the bytes of another program's file: rounded to its type, transposed where it has matrices the other way round.
//
// Promises: values round to nearest, ties to even; float32 is the parameters' own bits. Memory: one float32 buffer as large as
// the table's largest tensor, which tensors that fit into it together share, and kPieceBytes; beside it the source's own.
// Refuses: a finite value that the type does not reach, naming the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "kernels/ops.h"
#include "model/exchange/weight_source.h"

namespace holdfast::model {

inline constexpr size_t kPieceBytes = 256 << 10;

// A tensor of the table as a file has it.
struct FileTensor {
  std::string name;  // in the file
  size_t tensor;     // its index in the table
  std::vector<int64_t> shape;
  bool is_transposed;
  kernels::DType dtype;

  int64_t bytes() const;
};

enum class Layout : uint8_t { kOutIn, kInOut };  // of a matrix
FileTensor file_tensor(const ParameterTable& table, size_t tensor, std::string name, kernels::DType dtype,
                       Layout layout = Layout::kOutIn);

using ByteSink = std::function<void(std::span<const std::byte>)>;

// `values`: the tensor's, as the table has them.
tl::expected<void, std::string> encode(const FileTensor& tensor, std::span<const float> values, const ByteSink& sink);

// Calls `each` with every tensor's values, in the order of `tensors`. Ends at the first error.
using OnTensor = std::function<tl::expected<void, std::string>(const FileTensor& tensor, std::span<const float> values)>;
tl::expected<void, std::string> for_each_tensor(const WeightSource& source, std::span<const FileTensor> tensors,
                                                const OnTensor& each);

}  // namespace holdfast::model
