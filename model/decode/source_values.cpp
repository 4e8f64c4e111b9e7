#include "model/decode/source_values.h"

#include <algorithm>

namespace holdfast::model {

tl::expected<void, std::string> SourceValues::fill(size_t tensor, std::span<float> values) const {
  if (tensor < first_ || tensor >= first_ + group_.size()) {
    group_.clear();
    first_ = tensor;
    std::vector<storage::MutableTensor> wanted;
    size_t bytes = 0;
    for (size_t i = tensor; i < table_.entries.size(); ++i) {
      const Parameter& entry = table_.entries[i];
      bytes += static_cast<size_t>(entry.count) * sizeof(float);
      if (i > tensor && bytes > group_bytes_) break;
      std::vector<float>& floats = group_.emplace_back(static_cast<size_t>(entry.count));
      wanted.push_back({entry.name, "float32", entry.shape, std::as_writable_bytes(std::span(floats))});
    }
    if (auto read = source_.read(wanted); !read) {
      group_.clear();
      return read;
    }
  }
  std::ranges::copy(group_[tensor - first_], values.begin());
  return {};
}

}  // namespace holdfast::model
