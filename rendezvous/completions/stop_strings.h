// A text that ends where one of some strings begins, shown as it is written: what may be the beginning of such a string is held
// back until it is known. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::rendezvous {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // More of the text: that of it which can be shown now.
  std::string add(std::string_view piece) {
    if (has_stopped_) return {};
    held_ += piece;
    size_t end = std::string::npos;
    for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
    if (end != std::string::npos) {
      has_stopped_ = true;
      return std::exchange(held_, {}).substr(0, end);
    }
    size_t kept = 0;
    for (const std::string& stop : stops_) {
      for (size_t length = std::min(stop.size() - 1, held_.size()); length > kept; --length) {
        if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) kept = length;
      }
    }
    std::string shown = held_.substr(0, held_.size() - kept);
    held_.erase(0, shown.size());
    return shown;
  }
  // At the text's end.
  std::string finish() { return has_stopped_ ? std::string() : std::exchange(held_, {}); }
  bool has_stopped() const { return has_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool has_stopped_ = false;
};

}  // namespace holdfast::rendezvous
