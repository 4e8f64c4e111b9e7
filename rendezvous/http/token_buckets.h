// Token buckets, one per client: how often each may ask. Each is filled at a steady rate, which the owner of the buckets gives
// (rendezvous/api/access.cpp for requests).
//
// Promises: memory is bounded for any number of clients. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace holdfast::rendezvous {

class TokenBuckets {
 public:
  // `per_second` on average, `burst` at once. 0 a second: no limit.
  TokenBuckets(double per_second, double burst) : per_second_(per_second), burst_(burst) {}

  // Takes one from the bucket of `who`; false: it is empty, and nothing was taken.
  bool take(const std::string& who, int64_t now_ms);

 private:
  struct Bucket {
    double level = 0;
    int64_t at_ms = 0;
  };
  Bucket& filled(const std::string& who, int64_t now_ms);

  const double per_second_, burst_;
  std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace holdfast::rendezvous
