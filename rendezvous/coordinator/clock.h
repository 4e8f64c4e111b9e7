// The clock seam: the only place from which the service learns the time. Tests give it a clock that they move by hand.
//
// Thread: any.
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
