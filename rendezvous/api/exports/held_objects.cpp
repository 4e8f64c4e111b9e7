#include "rendezvous/api/exports/held_objects.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "rendezvous/text/errno_text.h"

namespace holdfast::rendezvous {
namespace {

using storage::Bytes;
using storage::Error;

// A file that became shorter gives what it has: whoever reads it checks that.
storage::Result<Bytes> read_whole(int file, const std::string& path) {
  struct stat status {};
  const auto failed = [&path] {
    return tl::unexpected(Error{Error::Code::kUnavailable, fmt::format("cannot read {}: {}", path, describe_errno(errno))});
  };
  if (::fstat(file, &status) < 0) return failed();
  if (status.st_size > storage::kObjectBytesMax)
    return tl::unexpected(Error{Error::Code::kCorrupt, fmt::format("{} is larger than anything Holdfast writes", path)});
  Bytes bytes(static_cast<size_t>(status.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

HeldObjects::HeldObjects(std::unique_ptr<storage::ObjectStore> store, std::string folder)
    : ForwardingStore(std::move(store)), folder_(std::move(folder)) {}

HeldObjects::~HeldObjects() {
  for (const auto& [key, file] : files_) ::close(file);
}

storage::Result<void> HeldObjects::keep(const std::string& key) {
  auto bytes = ForwardingStore::get(key);
  if (!bytes) return tl::unexpected(bytes.error());
  kept_[key] = *std::move(bytes);
  return {};
}

void HeldObjects::hold(const std::string& key) {
  if (!storage::valid_key(key) || files_.contains(key) || files_.size() >= kFilesMax) return;
  // A pipe's opening would wait for somebody who writes to it.
  const int file = ::open((folder_ + "/" + key).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat status {};
  if (file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    files_[key] = file;
  } else if (file >= 0) {
    ::close(file);
  }
}

storage::Result<Bytes> HeldObjects::get(const std::string& key) {
  if (const auto kept = kept_.find(key); kept != kept_.end()) return kept->second;
  const auto held = files_.find(key);
  return held == files_.end() ? ForwardingStore::get(key) : read_whole(held->second, folder_ + "/" + key);
}

}  // namespace holdfast::rendezvous
