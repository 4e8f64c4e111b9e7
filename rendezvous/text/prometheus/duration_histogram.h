// Durations counted by how long they were, as Prometheus' histograms are: of each bound, how many were not longer.
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "rendezvous/text/prometheus/prometheus_text.h"

namespace holdfast::rendezvous {

class DurationHistogram {
 public:
  void add(double seconds);
  // A family of the type "histogram", without labels.
  void add_to(PrometheusText& text, std::string_view name, std::string_view help) const;

 private:
  static constexpr std::array kBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0};  // s

  std::array<std::atomic<int64_t>, kBounds.size() + 1> counts_{};  // each without the shorter ones; the last: beyond all bounds
  std::atomic<int64_t> microseconds_{0};                           // of all together
};

}  // namespace holdfast::rendezvous
