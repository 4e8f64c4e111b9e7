#include "worker/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "rendezvous/text/errno_text.h"

namespace holdfast::worker {
namespace {

using rendezvous::describe_errno;

constexpr std::string_view kName = "holdfast";  // as /proc shows it: /memfd:holdfast (deleted)

tl::unexpected<std::string> failed(const std::string& what) {
  return tl::unexpected(what + ": " + describe_errno(errno));
}

tl::expected<std::span<std::byte>, std::string> map(int descriptor, size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return failed("mapping " + std::to_string(bytes) + " bytes of shared memory");
  return std::span(static_cast<std::byte*>(at), bytes);
}

// A descriptor number of another process can be anything there, a device or a pipe: it is looked at before it is opened.
bool is_ours(const std::string& path) {
  std::array<char, 64> target;
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  return length > 0 && std::string_view(target.data(), static_cast<size_t>(length)).starts_with("/memfd:" + std::string(kName));
}

}  // namespace

tl::expected<SharedMemory, std::string> SharedMemory::make(size_t bytes) {
  const int descriptor = memfd_create(kName.data(), MFD_CLOEXEC);
  if (descriptor < 0) return failed("making shared memory");
  SharedMemory made(descriptor, {});
  if (const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)); error != 0)
    return tl::unexpected("taking " + std::to_string(bytes) + " bytes of shared memory: " + describe_errno(error));
  auto mapped = map(descriptor, bytes);
  if (!mapped) return tl::unexpected(mapped.error());
  made.bytes_ = *mapped;
  uint64_t proof = 0;
  if (getrandom(&proof, sizeof proof, 0) != sizeof proof) return failed("a random number");
  std::memcpy(made.bytes_.data(), &proof, sizeof proof);
  made.offer_ = {static_cast<uint64_t>(getpid()), static_cast<uint64_t>(descriptor), bytes, proof};
  return made;
}

tl::expected<SharedMemory, std::string> SharedMemory::open(const Offer& offer) {
  const std::string path = "/proc/" + std::to_string(offer.process) + "/fd/" + std::to_string(offer.descriptor);
  if (!is_ours(path)) {
    return tl::unexpected(path +
                          " is not another worker's shared memory, seen from here: it runs in another container, or "
                          "as another user. Start all workers of a node as one user, in one container");
  }
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failed("opening " + path);
  SharedMemory opened(descriptor, {});
  struct stat file {};
  if (fstat(descriptor, &file) != 0) return failed("the size of " + path);
  if (file.st_size < 0 || static_cast<uint64_t>(file.st_size) != offer.bytes || offer.bytes < kProofBytes) {
    return tl::unexpected(path + " has " + std::to_string(file.st_size) + " bytes, not " + std::to_string(offer.bytes));
  }
  auto mapped = map(descriptor, offer.bytes);
  if (!mapped) return tl::unexpected(mapped.error());
  opened.bytes_ = *mapped;
  opened.offer_ = offer;
  opened.close_offer();
  uint64_t proof = 0;
  std::memcpy(&proof, opened.bytes_.data(), sizeof proof);
  if (proof != offer.proof) return tl::unexpected(path + " is another program's shared memory");
  return opened;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  close_offer();
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(std::exchange(other.bytes_, {})), offer_(other.offer_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  std::swap(offer_, other.offer_);
  return *this;
}

void SharedMemory::close_offer() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

}  // namespace holdfast::worker
