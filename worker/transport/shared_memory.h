// Memory that processes of one machine have in common. It has no name: it goes with the last process that holds it, however
// that one ends.
//
// A process makes it, and tells the others where it is by some other way (Offer). They open it through /proc, which the
// kernel allows to processes of the same user. A random number proves that what is opened is what was made: it is in its first
// bytes, for process numbers mean something else in another container.
// Thread: any; the memory's contents are its users' affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace holdfast::worker {

class SharedMemory {
 public:
  // Where it is: enough for another process of this machine.
  struct Offer {
    uint64_t process = 0, descriptor = 0, bytes = 0, proof = 0;
  };
  static constexpr size_t kProofBytes = 64;  // at its beginning, which its users leave alone

  // Of so many bytes, all zero after the proof, and there for certain: no later write finds the machine's memory gone. The
  // error is a sentence.
  static tl::expected<SharedMemory, std::string> make(size_t bytes);
  static tl::expected<SharedMemory, std::string> open(const Offer& offer);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  std::span<std::byte> bytes() const { return bytes_; }  // starts at a page
  const Offer& offer() const { return offer_; }
  // After all others have opened it: nobody else can any more.
  void close_offer();

 private:
  SharedMemory(int descriptor, std::span<std::byte> bytes) : descriptor_(descriptor), bytes_(bytes) {}

  int descriptor_ = -1;  // of the process that made it, until close_offer()
  std::span<std::byte> bytes_;
  Offer offer_;
};

}  // namespace holdfast::worker
