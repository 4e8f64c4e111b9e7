// XXH3-128, mostly as text: 32 lower-case hex digits of the canonical (big-endian) form, as xxh128sum prints it.
//
// Finds accidents, every one of them for practical purposes; it is no defence against someone who alters a checkpoint
// and its manifest on purpose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace holdfast::storage {

std::string checksum_hex(std::span<const std::byte> bytes);
std::array<std::byte, 16> checksum_128(std::span<const std::byte> bytes);  // the same as bytes
uint64_t checksum_64(std::span<const std::byte> bytes);                    // XXH3-64, seed 0
bool is_checksum_hex(const std::string& text);

// Over bytes that come in pieces.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far; more may follow
  std::array<std::byte, 16> digest() const;
  void reset();  // to no bytes

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::storage
