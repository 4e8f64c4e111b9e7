// A safetensors file that is open for reading, whoever made it.
//
// Promises: nothing is read outside the file, and no tensor at once: memory is that of the header. A file that shrinks while it
// is read is an error.
// Refuses: whatever is no such file (safetensors_header.h says all of it); errors name the file. Thread: any, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/exchange/safetensors_header.h"

namespace holdfast::model {

class SafetensorsFile {
 public:
  static tl::expected<SafetensorsFile, std::string> open(std::string path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Fills `bytes` with those of a tensor of this file, from its byte `offset` on.
  tl::expected<void, std::string> read(const StoredTensor& tensor, int64_t offset, std::span<std::byte> bytes) const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  int descriptor_ = -1;
  int64_t data_ = 0;  // where it begins in the file
  std::vector<StoredTensor> tensors_;
};

}  // namespace holdfast::model
