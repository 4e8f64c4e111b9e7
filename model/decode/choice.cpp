#include "model/decode/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "model/portable_math.h"
#include "model/random.h"

namespace holdfast::model {

namespace {

// Of one text each choice has so many draws.
constexpr uint64_t kMostTokens = uint64_t{1} << 40;

std::vector<float> penalised(const TextOptions& options, std::span<const int32_t> context, int64_t written,
                             std::span<const float> logits) {
  std::vector<float> changed(logits.begin(), logits.end());
  const auto is_known = [&](int32_t id) { return static_cast<size_t>(id) < changed.size(); };
  if (options.repetition_penalty != 1) {
    std::vector<int32_t> ids(context.begin(), context.end());
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    for (const int32_t id : ids) {
      if (!is_known(id)) continue;
      float& logit = changed[static_cast<size_t>(id)];
      logit = static_cast<float>(logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty);
    }
  }
  std::unordered_map<int32_t, int64_t> times;
  for (const int32_t id : context.last(static_cast<size_t>(written))) ++times[id];
  for (const auto& [id, count] : times) {
    if (!is_known(id)) continue;
    float& logit = changed[static_cast<size_t>(id)];
    logit = static_cast<float>(logit - options.presence_penalty - options.frequency_penalty * static_cast<double>(count));
  }
  return changed;
}

bool has_penalties(const TextOptions& options) {
  return options.repetition_penalty != 1 || options.presence_penalty != 0 || options.frequency_penalty != 0;
}

}  // namespace

std::vector<std::string> TextOptions::problems() const {
  std::vector<std::string> problems;
  const auto expect = [&](bool is_right, const char* name, auto value, const char* expected) {
    if (!is_right) problems.push_back(fmt::format("{}: {}, expected {}", name, value, expected));
  };
  expect(max_tokens >= 0, "max_tokens", max_tokens, "0 or more");
  expect(temperature >= 0 && std::isfinite(temperature), "temperature", temperature, "0 or more");
  expect(top_k >= 0, "top_k", top_k, "0 (all) or more");
  expect(top_p > 0 && top_p <= 1, "top_p", top_p, "a number above 0 and up to 1");
  expect(repetition_penalty > 0 && std::isfinite(repetition_penalty), "repetition_penalty", repetition_penalty,
         "a number above 0 (1: none)");
  expect(std::isfinite(presence_penalty), "presence_penalty", presence_penalty, "a number");
  expect(std::isfinite(frequency_penalty), "frequency_penalty", frequency_penalty, "a number");
  return problems;
}

std::vector<int32_t> likeliest(std::span<const float> logits, int64_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [logits](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto kept = ids.begin() + std::min<int64_t>(k, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), kept, ids.end(), likelier);
  ids.erase(kept, ids.end());
  return ids;
}

int32_t choose_token(const TextOptions& options, std::span<const int32_t> context, int64_t written,
                     std::span<const float> logits) {
  if (options.vocabulary_limit > 0)
    logits = logits.first(std::min(logits.size(), static_cast<size_t>(options.vocabulary_limit)));
  std::vector<float> changed;
  if (has_penalties(options)) logits = changed = penalised(options, context, written, logits);
  if (options.temperature == 0 || options.top_k == 1)
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());

  // The ids to draw from, ascending when it is all of them, else the likeliest first.
  std::vector<int32_t> ids;
  if (const bool is_ordered = options.top_k > 0 || options.top_p < 1; is_ordered) {
    ids = likeliest(logits, options.top_k > 0 ? options.top_k : static_cast<int64_t>(logits.size()));
  } else {
    ids.resize(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> cumulative(ids.size());
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    cumulative[i] = sum += portable_exp((logits[static_cast<size_t>(ids[i])] - largest) / options.temperature);
  size_t kept = ids.size();
  if (options.top_p < 1) {
    const auto enough = std::ranges::lower_bound(cumulative, options.top_p * sum);
    kept = std::min(kept, static_cast<size_t>(enough - cumulative.begin()) + 1);
  }
  const double u =
      uniform_at(options.seed, kSamplingStream, options.choice * kMostTokens + static_cast<uint64_t>(options.drawn + written));
  const auto found =
      std::upper_bound(cumulative.begin(), cumulative.begin() + static_cast<std::ptrdiff_t>(kept), u * cumulative[kept - 1]);
  return ids[std::min(static_cast<size_t>(found - cumulative.begin()), kept - 1)];
}

}  // namespace holdfast::model
