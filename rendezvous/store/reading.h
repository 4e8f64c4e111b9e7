// A job store that is read while another service writes it.
//
// Promises: everything that is read between begin() and end() is of one moment. Nothing is ever written: a call of the store
// that would write throws StoreError and changes nothing. Throws StoreAway when it cannot be read now; then this object is of
// no use any more. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/store/job_store.h"

namespace holdfast::rendezvous {

// A moment of the store. Two of the same term and number of commits have the same contents.
struct ReadMoment {
  int64_t term = 0, commits = 0;
  std::string leader;  // where the service that writes is reached; "": none ever led
  bool same_contents(const ReadMoment& other) const { return term == other.term && commits == other.commits; }
};

class StoreReading {
 public:
  virtual ~StoreReading() = default;
  virtual ReadMoment begin() = 0;
  virtual void end() = 0;
  virtual JobStore& store() = 0;  // lives as long as this object
};

}  // namespace holdfast::rendezvous
