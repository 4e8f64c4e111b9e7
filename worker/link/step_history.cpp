#include "worker/link/step_history.h"

#include <algorithm>
#include <utility>

#include "worker/transport/wire_bytes.h"

namespace holdfast::worker {

using rendezvous::StepPoint;

namespace {

// A point has a share for each rank where these are not dealt as usual: beside a straggler, say.
size_t bytes_of(const StepPoint& point) {
  return 125 + 24 * point.shares.size();
}
size_t json_bytes_of(const StepPoint& point) {
  return 300 + 45 * point.shares.size();  // at most
}

}  // namespace

void StepHistory::drop_oldest() {
  bytes_ -= bytes_of(points_.front());
  points_.pop_front();
}

void StepHistory::drop_newest() {
  bytes_ -= bytes_of(points_.back());
  points_.pop_back();
}

void StepHistory::add(StepPoint point) {
  if (point.step <= acknowledged_ || (!points_.empty() && point.step <= points_.back().step)) return;
  bytes_ += bytes_of(point);
  points_.push_back(std::move(point));
  for (; bytes_ > bytes_max_ && points_.size() > 1; ++dropped_) drop_oldest();
}

void StepHistory::acknowledge(int64_t step) {
  acknowledged_ = std::max(acknowledged_, step);
  while (!points_.empty() && points_.front().step <= acknowledged_) drop_oldest();
}

void StepHistory::truncate(int64_t step) {
  while (!points_.empty() && points_.back().step > step) drop_newest();
  acknowledged_ = std::min(acknowledged_, step);
}

void StepHistory::clear() {
  points_.clear();
  bytes_ = 0;
  acknowledged_ = 0;
  dropped_ = 0;
}

std::vector<StepPoint> StepHistory::oldest(size_t count_max, size_t bytes_max) const {
  std::vector<StepPoint> taken;
  size_t bytes = 0;
  for (const StepPoint& point : points_) {
    bytes += json_bytes_of(point);
    if (taken.size() == count_max || (bytes > bytes_max && !taken.empty())) break;
    taken.push_back(point);
  }
  return taken;
}

int64_t StepHistory::take_dropped() {
  return std::exchange(dropped_, 0);
}

namespace {
constexpr uint8_t kValidated = 1, kRefused = 2;
}  // namespace

std::vector<std::byte> encode_points(std::span<const StepPoint> points) {
  WireWriter out;
  out.put(static_cast<uint32_t>(points.size()));
  for (const StepPoint& point : points) {
    out.put_i64(point.step);
    for (const double value : {point.loss, point.gradient_norm, point.learning_rate, point.step_s, point.communication_s}) {
      out.put_f64(value);
    }
    out.put_i64(point.tokens);
    out.put_text(point.tokens_digest);
    out.put(static_cast<uint8_t>((point.validation_loss.has_value() ? kValidated : 0) | (point.refused ? kRefused : 0)));
    out.put_f64(point.validation_loss.value_or(0));
    out.put(static_cast<uint32_t>(point.shares.size()));
    for (const auto& share : point.shares) {
      for (const int64_t value : {int64_t{share.rank}, share.first, share.last}) out.put_i64(value);
    }
  }
  return out.take();
}

tl::expected<std::vector<StepPoint>, std::string> decode_points(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  std::vector<StepPoint> points;
  for (auto left = in.get<uint32_t>(); left > 0 && in.has(1); --left) {
    StepPoint point;
    point.step = in.get_i64();
    for (double* value : {&point.loss, &point.gradient_norm, &point.learning_rate, &point.step_s, &point.communication_s}) {
      *value = in.get_f64();
    }
    point.tokens = in.get_i64();
    point.tokens_digest = in.get_text();
    const auto flags = in.get<uint8_t>();
    point.refused = (flags & kRefused) != 0;
    const double validation_loss = in.get_f64();
    if ((flags & kValidated) != 0) point.validation_loss = validation_loss;
    for (auto shares = in.get<uint32_t>(); shares > 0 && in.has(3 * sizeof(int64_t)); --shares) {
      auto& share = point.shares.emplace_back();
      share.rank = static_cast<int>(in.get_i64());
      share.first = in.get_i64();
      share.last = in.get_i64();
    }
    points.push_back(std::move(point));
  }
  if (!in.done())
    return tl::unexpected("a list of steps of " + std::to_string(bytes.size()) + " bytes does not fit its contents");
  return points;
}

}  // namespace holdfast::worker
