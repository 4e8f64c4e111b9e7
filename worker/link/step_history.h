// Committed steps that the service has not confirmed yet.
//
// Every rank keeps them, not only the one that reports: when rank 0 is lost, or the service was away while steps were
// committed, the next rank 0 knows what is still missing from the service's books. Ranks that join get them with the state.
//
// Promises: points are in step order without a gap, each step once. Bounded: beyond kBytesMax the oldest are dropped and
// counted (the service then lacks their metrics; training is not held up by that).
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <tl/expected.hpp>
#include <vector>

#include "rendezvous/protocol/messages.h"

namespace holdfast::worker {

class StepHistory {
 public:
  static constexpr size_t kBytesMax = 25'000'000;  // as encode_points() writes them: 200,000 points without shares

  explicit StepHistory(size_t bytes_max = kBytesMax) : bytes_max_(bytes_max) {}

  void add(rendezvous::StepPoint point);
  // The service has everything up to `step`.
  void acknowledge(int64_t step);
  // The job went back to `step`: later steps were voided.
  void truncate(int64_t step);
  void clear();

  int64_t acknowledged() const { return acknowledged_; }
  bool empty() const { return points_.empty(); }
  // The oldest points, `count_max` at most, whose JSON has `bytes_max` bytes at most; but one, if there is any.
  std::vector<rendezvous::StepPoint> oldest(size_t count_max, size_t bytes_max) const;
  const std::deque<rendezvous::StepPoint>& points() const { return points_; }
  // The number of points dropped for want of room since the last call.
  int64_t take_dropped();

 private:
  void drop_oldest();
  void drop_newest();

  size_t bytes_max_, bytes_ = 0;
  std::deque<rendezvous::StepPoint> points_;
  int64_t acknowledged_ = 0, dropped_ = 0;
};

// Points as bytes, for a rank that joins. Layout, little-endian: number (u32), then for each point: step (i64), loss,
// gradient norm, learning rate, seconds, seconds of communication (f64 each), tokens (i64), tokens digest (text), flags (u8:
// 1 has a validation loss, 2 refused), validation loss (f64), number of shares (u32), and for each share rank, first and last
// (i64 each).
std::vector<std::byte> encode_points(std::span<const rendezvous::StepPoint> points);
tl::expected<std::vector<rendezvous::StepPoint>, std::string> decode_points(std::span<const std::byte> bytes);

}  // namespace holdfast::worker
