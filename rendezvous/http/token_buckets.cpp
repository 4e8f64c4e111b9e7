// A full bucket is as good as none, so full buckets are forgotten when there are many.
#include "rendezvous/http/token_buckets.h"

#include <algorithm>

namespace holdfast::rendezvous {
namespace {

constexpr size_t kBucketsMax = 10'000;

}  // namespace

TokenBuckets::Bucket& TokenBuckets::filled(const std::string& who, int64_t now_ms) {
  const auto level_now = [&](const Bucket& bucket) {
    return std::min(burst_, bucket.level + per_second_ * static_cast<double>(now_ms - bucket.at_ms) / 1000);
  };
  if (buckets_.size() >= kBucketsMax && !buckets_.contains(who)) {
    std::erase_if(buckets_, [&](const auto& known) { return level_now(known.second) >= burst_; });
    if (buckets_.size() >= kBucketsMax) buckets_.clear();  // all are in use: letting some ask too often is better than growing
  }
  Bucket& bucket = buckets_.try_emplace(who, Bucket{burst_, now_ms}).first->second;
  bucket = {level_now(bucket), now_ms};
  return bucket;
}

bool TokenBuckets::take(const std::string& who, int64_t now_ms) {
  if (per_second_ <= 0) return true;
  const std::lock_guard lock(mutex_);
  Bucket& bucket = filled(who, now_ms);
  if (bucket.level < 1) return false;
  bucket.level -= 1;
  return true;
}

}  // namespace holdfast::rendezvous
