// A TCP proxy that harms what passes through it, for tests.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace holdfast::worker {

struct Fault {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  uint64_t cut_after = kNever;       // closes both sides after so many bytes from the client
  uint64_t flip_bit_at = kNever;     // in this byte of the client's
  uint64_t freeze_after = kNever;    // stays open and moves nothing more
  uint64_t bytes_per_tick = kNever;  // of 50 ms, from the client
  bool overhears = false;            // keeps what passes, both ways
};

// Forwards every connection to `target` until it is destroyed. Each connection meets the fault anew.
class FaultyProxy {
 public:
  FaultyProxy(const std::string& target, Fault fault);
  ~FaultyProxy();
  const std::string& address() const;
  uint64_t bytes_from_client() const;  // on all connections
  std::string overheard() const;       // of all connections, where the fault says so

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::worker
