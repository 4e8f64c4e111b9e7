#include "model/data/token_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

namespace holdfast::model {

namespace {

std::string failure(const std::string& path, int error) {
  return path + ": cannot be written: " + std::generic_category().message(error) +
         (error == ENOSPC ? ". Free some space, or give another output folder." : ". Give a folder that can be written.");
}

std::array<int32_t, 256> llmc_header(int64_t tokens) {
  std::array<int32_t, 256> header{};
  header[0] = 20240520;  // llm.c's magic and version
  header[1] = 1;
  header[2] = static_cast<int32_t>(tokens);
  return header;
}

// The rename itself survives a power loss only once the folder is on disk too.
int sync_folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return errno;
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  return error;
}

// Flushes and closes `file`, then renames. 0, or errno of what failed.
int publish(std::FILE* file, const std::string& temporary, const std::string& path) {
  int error = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0 ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  return error != 0 ? error : sync_folder_of(path);
}

}  // namespace

TokenWriter::TokenWriter(std::string path, const std::string& format)
    : path_(std::move(path)),
      temporary_(path_ + ".tmp"),
      has_header_(format == "llm.c"),
      file_(std::fopen(temporary_.c_str(), "wb")) {
  if (file_ == nullptr) error_ = errno;
  if (has_header_) write(llmc_header(0).data(), sizeof(llmc_header(0)));
}

TokenWriter::~TokenWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void TokenWriter::write(const void* bytes, size_t count) {
  if (error_ == 0 && std::fwrite(bytes, 1, count, file_) != count) error_ = errno;
}

void TokenWriter::add(std::span<const int32_t> ids) {
  const std::vector<uint16_t> narrow(ids.begin(), ids.end());
  write(narrow.data(), narrow.size() * sizeof(uint16_t));
  tokens_ += static_cast<int64_t>(ids.size());
}

tl::expected<void, std::string> TokenWriter::finish() {
  if (has_header_ && tokens_ > std::numeric_limits<int32_t>::max()) {
    return tl::unexpected(path_ + ": " + std::to_string(tokens_) +
                          " tokens are more than llm.c's header can count (2147483647). Use the format nanogpt.");
  }
  if (has_header_ && error_ == 0) {
    std::rewind(file_);
    write(llmc_header(tokens_).data(), sizeof(llmc_header(tokens_)));
  }
  if (error_ == 0) error_ = publish(std::exchange(file_, nullptr), temporary_, path_);
  if (error_ == 0) return {};
  std::remove(temporary_.c_str());
  return tl::unexpected(failure(path_, error_));
}

tl::expected<void, std::string> write_whole_file(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return tl::unexpected(failure(path, errno));
  int error = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() ? 0 : errno;
  if (error == 0) {
    error = publish(file, temporary, path);
  } else {
    std::fclose(file);
  }
  if (error == 0) return {};
  std::remove(temporary.c_str());
  return tl::unexpected(failure(path, error));
}

}  // namespace holdfast::model
