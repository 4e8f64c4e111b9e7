#include "model/data/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace holdfast::model {

namespace {

tl::unexpected<std::string> failure(const std::string& path, const char* what, int error) {
  if (error == EWOULDBLOCK)
    return tl::unexpected(path + ": another process is writing it. Wait for that, or give another output folder.");
  return tl::unexpected(path + ": cannot be " + what + ": " + std::generic_category().message(error) +
                        (error == ENOSPC || error == EDQUOT ? ". Free some space, or give another output folder."
                                                            : ". Give a folder that can be written."));
}

// The rename or removal itself survives a power loss only once the folder is on disk too. 0, or errno.
int sync_folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return errno;
  const int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  return error;
}

// Whether the file that is open still has the name. Another process may have given it another one before it was locked.
bool has_name(int file, const std::string& path) {
  struct stat open {
  }, named{};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_ino == named.st_ino &&
         open.st_dev == named.st_dev;
}

// Locked, cut to its first `kept` bytes, which it has, and written behind them; without `kept` made anew. -1, with errno;
// EWOULDBLOCK: another process writes it.
int open_locked(const std::string& path, std::optional<int64_t> kept) {
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (kept ? 0 : O_CREAT), 0666);
    if (file < 0) return -1;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
      const bool is_ours = has_name(file, path);
      const bool is_long = ::lseek(file, 0, SEEK_END) >= kept.value_or(0);
      if (is_ours && is_long && ::ftruncate(file, kept.value_or(0)) == 0 && ::lseek(file, 0, SEEK_END) == kept.value_or(0))
        return file;
      if (is_ours && !is_long) errno = ENODATA;
      if (!is_ours) {
        ::close(file);
        continue;
      }
    }
    const int error = errno;
    ::close(file);
    errno = error;
    return -1;
  }
}

std::FILE* stream_of(int file) {
  return file < 0 ? nullptr : ::fdopen(file, "r+b");
}

}  // namespace

NewFile::NewFile(std::string path, std::optional<int64_t> kept)
    : path_(std::move(path)),
      temporary_(path_ + ".tmp"),
      file_(stream_of(open_locked(temporary_, kept))),
      is_there_(file_ != nullptr && !kept) {
  if (file_ == nullptr) error_ = errno;
}

NewFile::~NewFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (is_there_) std::remove(temporary_.c_str());
}

void NewFile::write(const void* bytes, size_t count) {
  if (error_ == 0 && count > 0 && std::fwrite(bytes, 1, count, file_) != count) error_ = errno;
}

void NewFile::rewind() {
  if (error_ == 0 && std::fseek(file_, 0, SEEK_SET) != 0) error_ = errno;
}

tl::expected<void, std::string> NewFile::keep() {
  if (error_ == 0 && (std::fflush(file_) != 0 || ::fdatasync(::fileno(file_)) != 0)) error_ = errno;
  if (error_ != 0) return failure(path_, "written", error_);
  is_there_ = false;
  return {};
}

tl::expected<void, std::string> NewFile::state() const {
  if (error_ != 0) return failure(path_, "written", error_);
  return {};
}

// It stays open, and locked, until it has its name.
tl::expected<void, std::string> NewFile::finish() {
  if (error_ == 0 && (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0)) error_ = errno;
  return state();
}

tl::expected<void, std::string> NewFile::publish() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure(path_, "written", errno);
  is_there_ = false;
  if (const int error = sync_folder_of(path_); error != 0) return failure(path_, "written", error);
  return {};
}

tl::expected<void, std::string> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return failure(path, "removed", errno);
  }
  if (const int error = sync_folder_of(path); error != 0) return failure(path, "removed", error);
  return {};
}

}  // namespace holdfast::model
