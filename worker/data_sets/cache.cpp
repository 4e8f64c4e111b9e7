#include "worker/data_sets/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "rendezvous/text/errno_text.h"
#include "rendezvous/text/sha256.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;
using rendezvous::DataManifest;

constexpr int64_t kSpare = 64 << 20;  // of the volume, for what else is written there

tl::unexpected<std::string> cannot_be_made(const std::string& folder, const std::error_code& error) {
  return tl::unexpected(
      fmt::format("{}: cannot be made: {}: give the worker another folder with --data_cache", folder, error.message()));
}

double gib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// The lock of a set's folder, held by this process beside others. Another process may have removed the folder while this one
// waited for the lock: then it is made anew.
tl::expected<OpenFile, std::string> use(const std::string& folder) {
  const std::string path = folder + "/in_use";
  while (true) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return cannot_be_made(folder, error);
    OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file.is_open() && errno == ENOENT) continue;
    if (!file.is_open()) return tl::unexpected(fmt::format("{}: {}", path, rendezvous::describe_errno(errno)));
    if (::flock(file.get(), LOCK_SH) != 0)
      return tl::unexpected(fmt::format("{}: {}", path, rendezvous::describe_errno(errno)));
    struct stat locked {
    }, there{};
    if (::fstat(file.get(), &locked) == 0 && ::stat(path.c_str(), &there) == 0 && locked.st_ino == there.st_ino) {
      ::futimens(file.get(), nullptr);  // used now
      return file;
    }
  }
}

struct Kept {
  std::string digest;
  fs::file_time_type used;
  int64_t bytes = 0;
};

tl::expected<DataManifest, std::string> read_manifest(const std::string& path) {
  std::ifstream file(path);
  if (!file) return tl::unexpected(path + ": is not there");
  return rendezvous::data_manifest_from_json(nlohmann::json::parse(file, nullptr, false));
}

// The sets in a folder, used longest ago first.
std::vector<Kept> kept_in(const std::string& folder) {
  std::vector<Kept> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!rendezvous::is_sha256_hex(name)) continue;
    Kept& kept = all.emplace_back();
    kept.digest = name;
    std::error_code ignored;
    kept.used = fs::last_write_time(entry.path() / "in_use", ignored);
    if (const auto manifest = read_manifest(entry.path() / "manifest.json")) kept.bytes = manifest->bytes();
  }
  std::ranges::sort(all, {}, &Kept::used);
  return all;
}

// That the set has on the volume already: one whose files were being made when its process ended.
int64_t allocated_in(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) == 0) bytes += int64_t{status.st_blocks} * 512;
  }
  return bytes;
}

// False: another process uses it.
bool remove_unused(const std::string& folder) {
  const OpenFile lock(::open((folder + "/in_use").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return false;
  std::error_code error;
  fs::remove_all(folder, error);
  return !error;
}

}  // namespace

tl::expected<DataManifest, std::string> DataCache::manifest_of(const std::string& digest) const {
  auto manifest = read_manifest(folder_ + "/" + digest + "/manifest.json");
  if (manifest && manifest->digest() != digest) return tl::unexpected(folder_ + "/" + digest + ": has another manifest");
  return manifest;
}

// Of the volume and the bound, with everything unused gone: what this set may take is what is left now, and what it has.
int64_t DataCache::room_for(const std::string& digest) const {
  std::error_code error;
  const auto space = fs::space(folder_, error);
  const int64_t left = error ? std::numeric_limits<int64_t>::max()
                             : static_cast<int64_t>(space.available) - kSpare + allocated_in(folder_ + "/" + digest);
  if (most_bytes_ == 0) return left;
  int64_t held = 0;
  for (const Kept& kept : kept_in(folder_)) held += kept.digest == digest ? 0 : kept.bytes;
  return std::min(left, most_bytes_ - held);
}

tl::expected<void, std::string> DataCache::make_room(const std::string& digest, int64_t bytes) const {
  for (const Kept& kept : kept_in(folder_)) {
    if (room_for(digest) >= bytes) return {};
    if (kept.digest == digest || !remove_unused(folder_ + "/" + kept.digest)) continue;
    spdlog::info("removed data set {} from {}: it was used longest ago, and another needs the room", kept.digest.substr(0, 12),
                 folder_);
  }
  if (room_for(digest) >= bytes) return {};
  const std::string remedy =
      most_bytes_ == 0 ? "free some" : fmt::format("free some, raise --data_cache_gib, which is {:.3g}", gib(most_bytes_));
  return tl::unexpected(
      fmt::format("a data set of {} MiB does not fit into {}, which has room for {} MiB: {}, or choose another "
                  "volume with --data_cache",
                  (bytes + (1 << 20) - 1) >> 20, folder_, std::max<int64_t>(room_for(digest), 0) >> 20, remedy));
}

tl::expected<std::shared_ptr<CachedSet>, std::string> DataCache::open(const DataManifest& manifest) {
  const std::string digest = manifest.digest(), folder = folder_ + "/" + digest, have = folder + "/have";
  OpenFile alone;  // of this machine's processes, which would each look for the room that another is taking
  if (!fs::exists(have)) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) return cannot_be_made(folder_, error);
    alone = OpenFile(::open((folder_ + "/.making").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!alone.is_open() || ::flock(alone.get(), LOCK_EX) != 0)
      return tl::unexpected(fmt::format("{}/.making: {}", folder_, rendezvous::describe_errno(errno)));
    if (!fs::exists(have)) {
      if (auto made = make_room(digest, manifest.bytes()); !made) return tl::unexpected(made.error());
    }
  }
  auto in_use = use(folder);
  if (!in_use) return tl::unexpected(in_use.error());
  return CachedSet::open(folder, manifest, std::move(*in_use));
}

std::string default_cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/holdfast/data-sets";
  const char* const home = std::getenv("HOME");
  return std::string(home == nullptr ? "/var/tmp" : home) + "/.cache/holdfast/data-sets";
}

}  // namespace holdfast::worker
