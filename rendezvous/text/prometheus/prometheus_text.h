// Prometheus' text exposition format, version 0.0.4: families of samples, each with its help and type. Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Samples of one family follow each other. `type`: "gauge", "counter" (whose name ends in _total) or "histogram".
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(const Labels& labels, double value);
  void sample(double value) { sample({}, value); }
  void part(std::string_view suffix, const Labels& labels, double value);  // of a histogram: "_bucket", "_sum", "_count"
  const std::string& text() const { return text_; }

 private:
  std::string text_, name_;
};

inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace holdfast::rendezvous
