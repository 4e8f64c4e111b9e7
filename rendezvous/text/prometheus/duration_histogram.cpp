#include "rendezvous/text/prometheus/duration_histogram.h"

#include <fmt/format.h>

#include <algorithm>

namespace holdfast::rendezvous {

void DurationHistogram::add(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts_[static_cast<size_t>(bound - kBounds.begin())];
  microseconds_ += static_cast<int64_t>(seconds * 1e6);
}

void DurationHistogram::add_to(PrometheusText& text, std::string_view name, std::string_view help) const {
  text.family(name, "histogram", help);
  int64_t so_far = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    so_far += counts_[i];
    text.part("_bucket", {{"le", i < kBounds.size() ? fmt::format("{}", kBounds[i]) : "+Inf"}}, static_cast<double>(so_far));
  }
  text.part("_sum", {}, static_cast<double>(microseconds_) * 1e-6);
  text.part("_count", {}, static_cast<double>(so_far));
}

}  // namespace holdfast::rendezvous
