// The clock seam: the only place where the service learns what time it is. Tests hand in one that they move by hand.
//
// Any thread may call.
#pragma once

#include <cstdint>

namespace holdfast::rendezvous {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t steady_ms() const = 0;  // never goes back; for leases and deadlines
  virtual int64_t wall_ms() const = 0;    // since 1970, UTC; for people and for the database
};

}  // namespace holdfast::rendezvous
