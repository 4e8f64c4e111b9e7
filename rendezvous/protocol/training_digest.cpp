#include "rendezvous/protocol/training_digest.h"

#include <string_view>
#include <utility>

namespace holdfast::rendezvous {
namespace {

constexpr std::string_view kWeights = "+weights:";

// The text before the first `mark`, and behind it; all and nothing where there is none.
std::pair<std::string, std::string> cut(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + mark.size())};
}

}  // namespace

std::string to_text(const TrainingDigest& digest) {
  std::string text;
  for (const auto& [of_source, share] : digest.sources) {
    if (!text.empty()) text += ',';
    text += of_source;
    if (!share.empty()) text += '*' + share;
  }
  if (!digest.validation.empty()) text += '+' + digest.validation;
  if (!digest.weights.empty()) text += std::string(kWeights) + digest.weights;
  return text;
}

TrainingDigest parse_training_digest(const std::string& text) {
  TrainingDigest digest;
  auto [data, weights] = cut(text, kWeights);
  auto [sources, validation] = cut(data, "+");
  digest.validation = std::move(validation);
  digest.weights = std::move(weights);
  while (!sources.empty()) {
    auto [source, others] = cut(sources, ",");
    auto [of_source, share] = cut(source, "*");
    digest.sources.push_back({std::move(of_source), std::move(share)});
    sources = std::move(others);
  }
  return digest;
}

}  // namespace holdfast::rendezvous
