#include "model/data/small_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace holdfast::model {

tl::expected<std::string, std::string> read_small_file(const std::string& path) {
  constexpr uintmax_t kMostBytes = 64 << 20;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return tl::unexpected(fmt::format("{}: cannot be read: {}", path, error.message()));
  if (bytes > kMostBytes) return tl::unexpected(fmt::format("{}: has {} bytes, expected at most {}.", path, bytes, kMostBytes));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (bytes > 0 && !(text << file.rdbuf()))) {
    return tl::unexpected(fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
  }
  return std::move(text).str();
}

}  // namespace holdfast::model
