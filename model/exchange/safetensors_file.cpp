#include "model/exchange/safetensors_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace holdfast::model {

namespace {

constexpr int64_t kLengthBytes = 8;

tl::unexpected<std::string> failure(const std::string& path, const std::string& what) {
  return tl::unexpected(path + ": " + what);
}

// Empty on success.
std::string read_at(int descriptor, int64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "cannot be read: " + std::generic_category().message(errno);
    if (got == 0) return fmt::format("ends at byte {}, while it is read: somebody cut it short", offset);
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return "";
}

}  // namespace

tl::expected<SafetensorsFile, std::string> SafetensorsFile::open(std::string path) {
  SafetensorsFile file;
  file.path_ = std::move(path);
  file.descriptor_ = ::open(file.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat about {};
  if (file.descriptor_ < 0 || ::fstat(file.descriptor_, &about) != 0)
    return failure(file.path_, "cannot be read: " + std::generic_category().message(errno));
  if (!S_ISREG(about.st_mode)) return failure(file.path_, "is not a file, expected a safetensors file");
  const int64_t bytes = about.st_size;
  uint64_t header_bytes = 0;
  if (bytes < kLengthBytes) return failure(file.path_, fmt::format("has {} bytes: it is not a safetensors file", bytes));
  if (const auto problem = read_at(file.descriptor_, 0, std::as_writable_bytes(std::span(&header_bytes, 1))); !problem.empty())
    return failure(file.path_, problem);
  const auto rest = static_cast<uint64_t>(bytes - kLengthBytes);
  if (header_bytes > rest) {
    return failure(file.path_,
                   fmt::format("says that its header has {} bytes, and has {} after that: it was cut short, or is not a "
                               "safetensors file",
                               header_bytes, rest));
  }
  if (header_bytes > static_cast<uint64_t>(kHeaderBytesMax))
    return failure(file.path_,
                   fmt::format("has a header of {} bytes, of a GPT-2 expected at most {}", header_bytes, kHeaderBytesMax));
  std::string header(header_bytes, ' ');
  if (const auto problem = read_at(file.descriptor_, kLengthBytes, std::as_writable_bytes(std::span(header))); !problem.empty())
    return failure(file.path_, problem);
  file.data_ = kLengthBytes + static_cast<int64_t>(header_bytes);
  auto tensors = parse_safetensors_header(header, bytes - file.data_);
  if (!tensors) return failure(file.path_, tensors.error());
  file.tensors_ = *std::move(tensors);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      data_(other.data_),
      tensors_(std::move(other.tensors_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(tensors_, other.tensors_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

tl::expected<void, std::string> SafetensorsFile::read(const StoredTensor& tensor, int64_t offset,
                                                      std::span<std::byte> bytes) const {
  if (offset < 0 || offset > tensor.bytes || static_cast<int64_t>(bytes.size()) > tensor.bytes - offset)
    return failure(path_, fmt::format("{}: bytes {} to {} are asked for, of {}", tensor.name, offset,
                                      offset + static_cast<int64_t>(bytes.size()), tensor.bytes));
  if (const auto problem = read_at(descriptor_, data_ + tensor.begin + offset, bytes); !problem.empty())
    return failure(path_, problem);
  return {};
}

}  // namespace holdfast::model
