// The operating system's files, for the directory store.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>

#include "storage/file_system.h"
#include "storage/parallel.h"

namespace holdfast::storage {
namespace {

auto failed() {
  return tl::unexpected(errno);
}

// Repeats a call for as long as a signal interrupts it.
template <typename Call>
auto uninterrupted(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

IoResult<void> done(int result) {
  if (result < 0) return failed();
  return {};
}

class PosixFileSystem : public FileSystem {
 public:
  PosixFileSystem(Writing writing, const std::atomic<bool>* stop) : writing_(writing), stop_(stop) {}

  IoResult<int> create(const std::string& path, Readers readers) override {
    const mode_t mode = readers == Readers::kOwner ? 0600 : 0666;
    const int fd = uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode); });
    if (fd < 0) return failed();
    return fd;
  }

  IoResult<size_t> write(int file, std::span<const std::byte> bytes) override {
    return writing_ == Writing::kInBackground ? write_in_background(file, bytes) : write_now(file, bytes);
  }

  IoResult<void> sync(int file) override {
    return done(uninterrupted([&] { return ::fsync(file); }));
  }

  // Not repeated on EINTR: on Linux the descriptor is gone by then, and may be another thread's.
  IoResult<void> close(int file) override {
    if (::close(file) < 0 && errno != EINTR) return failed();
    return {};
  }

  IoResult<void> rename(const std::string& from, const std::string& to) override {
    return done(std::rename(from.c_str(), to.c_str()));
  }
  IoResult<void> unlink(const std::string& path) override { return done(::unlink(path.c_str())); }
  IoResult<void> make_directory(const std::string& path) override { return done(::mkdir(path.c_str(), 0777)); }
  IoResult<void> remove_directory(const std::string& path) override { return done(::rmdir(path.c_str())); }

  IoResult<void> sync_directory(const std::string& path) override {
    const Descriptor directory(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (directory.get() < 0) return failed();
    if (uninterrupted([&] { return ::fsync(directory.get()); }) == 0) return {};
    // Some network file systems have no such call for directories; names are then the server's to keep.
    if (errno == EINVAL || errno == ENOTSUP) return {};
    return failed();
  }

  IoResult<Bytes> read(const std::string& path, int64_t bytes_max) override {
    // A pipe's opening would wait for somebody who writes to it; to a regular file the flag means nothing.
    const Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
    if (file.get() < 0) return failed();
    struct stat status {};
    if (::fstat(file.get(), &status) < 0) return failed();
    if (S_ISDIR(status.st_mode)) return tl::unexpected(EISDIR);
    if (!S_ISREG(status.st_mode)) return tl::unexpected(ENXIO);
    if (status.st_size > bytes_max) return tl::unexpected(EFBIG);
    Bytes bytes(static_cast<size_t>(status.st_size));
    size_t done = 0;
    while (done < bytes.size()) {
      if (stop_ != nullptr && *stop_) return tl::unexpected(ECANCELED);
      const size_t piece = std::min(kReadAtOnce, bytes.size() - done);
      const ssize_t n = uninterrupted([&] { return ::read(file.get(), bytes.data() + done, piece); });
      if (n < 0) return failed();
      if (n == 0) break;  // it became shorter: whoever reads checks what it holds
      done += static_cast<size_t>(n);
    }
    bytes.resize(done);
    return bytes;
  }

  IoResult<std::vector<DirectoryEntry>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return failed();
    std::vector<DirectoryEntry> entries;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());  // NOLINT(concurrency-mt-unsafe): this thread's own stream
      if (!entry) break;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status {};
      if (::fstatat(::dirfd(directory.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT) continue;  // removed meanwhile
        return failed();
      }
      entries.push_back({name, S_ISDIR(status.st_mode), S_ISREG(status.st_mode)});
    }
    if (errno != 0) return failed();
    return entries;
  }

  IoResult<bool> is_directory(const std::string& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode);
    if (errno == ENOENT) return false;
    return failed();
  }

  IoResult<int64_t> free_bytes(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) < 0) return failed();
    return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
  }

 private:
  static IoResult<size_t> write_now(int file, std::span<const std::byte> bytes) {
    const ssize_t written = uninterrupted([&] { return ::write(file, bytes.data(), bytes.size()); });
    if (written < 0) return failed();
    if (written == 0 && !bytes.empty()) return tl::unexpected(EIO);
    return static_cast<size_t>(written);
  }
  // So little at once that a thread which the processors hardly let run has done it within a second or so.
  static IoResult<size_t> write_in_background(int file, std::span<const std::byte> bytes) {
    constexpr size_t kBytes = 1 << 20;
    constexpr std::chrono::milliseconds kPatience{50};
    IoResult<size_t> written = tl::unexpected(ENOMEM);  // of a thread; replaced by what the write says
    static_cast<void>(in_background(
        1, 1,
        [&](size_t, int) -> Result<void> {
          written = write_now(file, bytes.first(std::min(kBytes, bytes.size())));
          return {};
        },
        kPatience));
    return written;
  }

  // So little that a slow disk or network gives it back well within a second.
  static constexpr size_t kReadAtOnce = 1 << 20;

  const Writing writing_;
  const std::atomic<bool>* const stop_;
};

}  // namespace

std::shared_ptr<FileSystem> posix_file_system(Writing writing, const std::atomic<bool>* stop) {
  return std::make_shared<PosixFileSystem>(writing, stop);
}

}  // namespace holdfast::storage
