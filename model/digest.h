// XXH3-128 over a stream of bytes (https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md), as 32 lower-case hex digits.
// The digits are the canonical (big-endian) form that `xxh128sum` prints. Not a defence against an adversary: it finds
// torn, altered and diverged data.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace holdfast::model {

class Digest128 {
 public:
  Digest128();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far; more may follow

 private:
  struct Free {
    void operator()(void* state) const noexcept;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace holdfast::model
