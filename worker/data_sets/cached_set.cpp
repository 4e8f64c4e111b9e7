#include "worker/data_sets/cached_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using Expected = tl::expected<void, std::string>;

tl::unexpected<std::string> failed(const std::string& path, const char* what, int error) {
  return tl::unexpected(fmt::format("{}: cannot {}: {}", path, what, rendezvous::describe_errno(error)));
}

// The machine's present run: another after each start.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Expected write_durably(const std::string& path, const std::string& text) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.is_open()) return failed(path, "be written", errno);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0)
    return failed(path, "be written", errno);
  return {};
}

std::atomic_ref<uint8_t> flag(uint8_t& byte) {
  return std::atomic_ref<uint8_t>(byte);
}

}  // namespace

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = other.release();
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int OpenFile::release() {
  return std::exchange(descriptor_, -1);
}

CachedSet::CachedSet(std::string folder, rendezvous::DataManifest manifest, OpenFile in_use)
    : folder_(std::move(folder)), manifest_(std::move(manifest)), in_use_(std::move(in_use)) {
  for (size_t file = 0; file < manifest_.files.size(); ++file) {
    for (int64_t offset = 0; offset < manifest_.files[file].bytes; offset += rendezvous::kChunkBytes) {
      places_.push_back({file, offset, std::min(rendezvous::kChunkBytes, manifest_.files[file].bytes - offset)});
    }
  }
}

CachedSet::~CachedSet() {
  if (!flags_.empty()) ::munmap(flags_.data(), flags_.size());
}

tl::expected<std::shared_ptr<CachedSet>, std::string> CachedSet::open(const std::string& folder,
                                                                      rendezvous::DataManifest manifest, OpenFile in_use) {
  std::shared_ptr<CachedSet> set(new CachedSet(folder, std::move(manifest), std::move(in_use)));
  const std::string described = set->path_of("manifest.json"), boot = set->path_of("started");
  if (!fs::exists(described)) {
    if (auto written = write_durably(described, to_json(set->manifest_).dump()); !written)
      return tl::unexpected(written.error());
  }
  if (auto made = set->make_files(); !made) return tl::unexpected(made.error());
  if (auto mapped = set->map_flags(); !mapped) return tl::unexpected(mapped.error());
  if (!fs::exists(set->path_of("whole")) && text_of(boot) != boot_id()) {
    set->verify();
    if (auto written = write_durably(boot, boot_id()); !written) return tl::unexpected(written.error());
  }
  return set;
}

Expected CachedSet::make_files() {
  for (const rendezvous::DataSetFile& file : manifest_.files) {
    const std::string path = path_of(file.name);
    OpenFile opened(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!opened.is_open()) return failed(path, "be opened", errno);
    struct stat status {};
    if (::fstat(opened.get(), &status) != 0) return failed(path, "be examined", errno);
    if (status.st_size != file.bytes) {
      if (::ftruncate(opened.get(), file.bytes) != 0) return failed(path, "be given its length", errno);
      // A volume that cannot set room aside says so, and then the files grow as chunks come. (posix_fallocate would write
      // zeros.)
      const int error = file.bytes == 0 || ::fallocate(opened.get(), 0, 0, file.bytes) == 0 ? 0 : errno;
      if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
        return tl::unexpected(
            fmt::format("{}: there is no room for its {} bytes: {}: free some, or choose another volume with "
                        "--data_cache",
                        path, file.bytes, rendezvous::describe_errno(error)));
      }
    }
    files_.push_back(std::move(opened));
  }
  return {};
}

Expected CachedSet::map_flags() {
  const std::string path = path_of("have");
  const OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) return failed(path, "be opened", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(places_.size())) != 0) return failed(path, "be given its length", errno);
  void* memory = ::mmap(nullptr, places_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return failed(path, "be mapped", errno);
  flags_ = {static_cast<uint8_t*>(memory), places_.size()};
  return {};
}

bool CachedSet::has(int64_t chunk) const {
  return flag(flags_[static_cast<size_t>(chunk)]).load(std::memory_order_acquire) == 1;
}

void CachedSet::set_flag(int64_t chunk, bool here) {
  flag(flags_[static_cast<size_t>(chunk)]).store(here ? 1 : 0, std::memory_order_release);
}

std::vector<bool> CachedSet::have() const {
  std::vector<bool> all(flags_.size());
  for (size_t chunk = 0; chunk < all.size(); ++chunk) all[chunk] = has(static_cast<int64_t>(chunk));
  return all;
}

int64_t CachedSet::missing() const {
  return std::ranges::count_if(flags_, [](uint8_t& byte) { return flag(byte).load(std::memory_order_acquire) != 1; });
}

Expected CachedSet::put(int64_t chunk, std::span<const std::byte> bytes) {
  const Place& place = places_.at(static_cast<size_t>(chunk));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote =
        ::pwrite(files_[place.file].get(), bytes.data() + done, bytes.size() - done, place.offset + static_cast<off_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return failed(path_of(manifest_.files[place.file].name), "be written", wrote < 0 ? errno : EIO);
    done += static_cast<size_t>(wrote);
  }
  set_flag(chunk, true);
  return {};
}

tl::expected<std::string, std::string> CachedSet::get(int64_t chunk) const {
  const Place& place = places_.at(static_cast<size_t>(chunk));
  std::string bytes(static_cast<size_t>(place.bytes), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t read =
        ::pread(files_[place.file].get(), bytes.data() + done, bytes.size() - done, place.offset + static_cast<off_t>(done));
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return failed(path_of(manifest_.files[place.file].name), "be read", read < 0 ? errno : EIO);
    done += static_cast<size_t>(read);
  }
  return bytes;
}

Expected CachedSet::finish() {
  for (size_t file = 0; file < files_.size(); ++file) {
    if (::fdatasync(files_[file].get()) != 0) return failed(path_of(manifest_.files[file].name), "be made durable", errno);
  }
  if (::msync(flags_.data(), flags_.size(), MS_SYNC) != 0) return failed(path_of("have"), "be made durable", errno);
  return write_durably(path_of("whole"), manifest_.digest());
}

int64_t CachedSet::verify() {
  int64_t wrong = 0;
  std::error_code ignored;
  for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
    if (!has(chunk)) continue;
    const auto bytes = get(chunk);
    const std::string& name = *rendezvous::chunk_at(manifest_, chunk).name;
    if (bytes && rendezvous::sha256_hex(std::as_bytes(std::span(*bytes))) == name) continue;
    if (wrong++ == 0) fs::remove(path_of("whole"), ignored);
    set_flag(chunk, false);
  }
  return wrong;
}

}  // namespace holdfast::worker
