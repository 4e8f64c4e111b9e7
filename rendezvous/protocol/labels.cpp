#include "rendezvous/protocol/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "rendezvous/text/plain_text.h"

namespace holdfast::rendezvous {

bool is_label_key(const std::string& key) {
  return !key.empty() && key.size() <= kLabelKeyBytes && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '/' || c == '-';
  });
}

std::string worker_labels_complaint(const Labels& labels) {
  if (labels.size() > kLabelsMax) return fmt::format("there are {} labels, at most {} are taken", labels.size(), kLabelsMax);
  for (const auto& [key, value] : labels) {
    if (!is_label_key(key))
      return fmt::format("label \"{}\": a key is 1 to {} letters, digits and ._/-", key.substr(0, 80), kLabelKeyBytes);
    if (key == "device" || key == "memory_gib")
      return fmt::format("label {}: every worker has its {} by itself; choose another key", key, key);
    if (value.size() > kLabelValueBytes)
      return fmt::format("label {}: its value has more than {} bytes", key, kLabelValueBytes);
    if (has_control_characters(value)) return fmt::format("label {}: its value has control characters in it", key);
  }
  return "";
}

std::string labels_in_words(const Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  return text;
}

}  // namespace holdfast::rendezvous
