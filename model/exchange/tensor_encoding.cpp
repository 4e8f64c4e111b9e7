#include "model/exchange/tensor_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "kernels/dtype.h"

namespace holdfast::model {

namespace {

static_assert(std::endian::native == std::endian::little, "all three formats are little-endian");

template <typename Element>
tl::expected<void, std::string> send_rounded(const FileTensor& tensor, std::span<const float> values, const ByteSink& sink) {
  std::vector<Element> rounded(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(static_cast<float>(rounded[i])) && std::isfinite(values[i])) {
      return tl::unexpected(fmt::format("{}: it has the value {:g}, which {} does not reach. Export it as float32{}.",
                                        tensor.name, values[i], kernels::dtype_name(tensor.dtype),
                                        tensor.dtype == kernels::DType::kFloat16 ? " or bfloat16" : ""));
    }
  }
  sink(std::as_bytes(std::span(rounded)));
  return {};
}

tl::expected<void, std::string> send_as(const FileTensor& tensor, std::span<const float> values, const ByteSink& sink) {
  switch (tensor.dtype) {
    case kernels::DType::kFloat32:
      sink(std::as_bytes(values));
      return {};
    case kernels::DType::kBFloat16:
      return send_rounded<kernels::BFloat16>(tensor, values, sink);
    case kernels::DType::kFloat16:
      return send_rounded<kernels::Float16>(tensor, values, sink);
  }
  return tl::unexpected(tensor.name + ": has no type");
}

// values (out, in) -> (in, out), some rows at a time.
tl::expected<void, std::string> send_transposed(const FileTensor& tensor, std::span<const float> values, const ByteSink& sink) {
  const auto in = static_cast<size_t>(tensor.shape[0]), out = static_cast<size_t>(tensor.shape[1]);
  const size_t rows_max = std::clamp<size_t>(kPieceBytes / sizeof(float) / out, 1, in);
  std::vector<float> piece(rows_max * out);
  for (size_t first = 0; first < in; first += rows_max) {
    const size_t rows = std::min(rows_max, in - first);
    for (size_t j = 0; j < out; ++j) {
      for (size_t i = 0; i < rows; ++i) piece[i * out + j] = values[j * in + first + i];
    }
    const auto sent = send_as(tensor, std::span(piece).first(rows * out), sink);
    if (!sent) return sent;
  }
  return {};
}

}  // namespace

int64_t FileTensor::bytes() const {
  int64_t count = static_cast<int64_t>(kernels::dtype_size(dtype));
  for (const int64_t size : shape) count *= size;
  return count;
}

FileTensor file_tensor(const ParameterTable& table, size_t tensor, std::string name, kernels::DType dtype, Layout layout) {
  FileTensor found{std::move(name), tensor, table.entries[tensor].shape, false, dtype};
  found.is_transposed = layout == Layout::kInOut && found.shape.size() == 2;
  if (found.is_transposed) std::swap(found.shape[0], found.shape[1]);
  return found;
}

tl::expected<void, std::string> encode(const FileTensor& tensor, std::span<const float> values, const ByteSink& sink) {
  if (tensor.is_transposed) return send_transposed(tensor, values, sink);
  constexpr size_t kPieceElements = kPieceBytes / sizeof(float);
  for (size_t at = 0; at < values.size(); at += kPieceElements) {
    const auto sent = send_as(tensor, values.subspan(at, std::min(kPieceElements, values.size() - at)), sink);
    if (!sent) return sent;
  }
  return {};
}

tl::expected<void, std::string> for_each_tensor(const WeightSource& source, std::span<const FileTensor> tensors,
                                                const OnTensor& each) {
  const ParameterTable table(source.config);
  const auto count_of = [&](const FileTensor& tensor) { return static_cast<size_t>(table.entries[tensor.tensor].count); };
  std::vector<float> buffer(static_cast<size_t>(std::ranges::max(table.entries, {}, &Parameter::count).count));
  for (size_t first = 0, end = 0; first < tensors.size(); first = end) {
    std::vector<storage::MutableTensor> wanted;
    std::vector<std::span<const float>> values;
    for (size_t used = 0; end < tensors.size() && used + count_of(tensors[end]) <= buffer.size(); ++end) {
      const std::span<float> part = std::span(buffer).subspan(used, count_of(tensors[end]));
      const Parameter& parameter = table.entries[tensors[end].tensor];
      wanted.push_back({parameter.name, "float32", parameter.shape, std::as_writable_bytes(part)});
      values.emplace_back(part);
      used += part.size();
    }
    if (const auto read = source.read(wanted); !read) return read;
    for (size_t i = first; i < end; ++i) {
      if (const auto done = each(tensors[i], values[i - first]); !done) return done;
    }
  }
  return {};
}

}  // namespace holdfast::model
