#include "model/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "model/random.h"

namespace holdfast::model {

namespace {

// Ids of the k largest logits (all for k = 0), largest first; the lower id first among equals.
std::vector<int32_t> candidates(std::span<const float> logits, int64_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const int64_t kept =
      top_k > 0 ? std::min<int64_t>(top_k, static_cast<int64_t>(ids.size())) : static_cast<int64_t>(ids.size());
  const auto likelier = [logits](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(), likelier);
  ids.resize(static_cast<size_t>(kept));
  return ids;
}

void check(const Gpt2& model, std::span<const int32_t> context, const SampleOptions& options) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (context.empty()) refuse("context: no ids were given, expected at least one");
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    refuse("temperature: " + std::to_string(options.temperature) + ", expected 0 or more");
  }
  if (options.top_k < 0) refuse("top_k: " + std::to_string(options.top_k) + ", expected 0 (all) or more");
  if (options.max_tokens < 0) refuse("max_tokens: " + std::to_string(options.max_tokens) + ", expected 0 or more");
  for (const int32_t id : context) {
    if (id < 0 || id >= model.config().vocab_size) {
      refuse("context: id " + std::to_string(id) + " is not below the model's vocab_size " +
             std::to_string(model.config().vocab_size) + ": the tokenizer is not the one the model was trained with");
    }
  }
}

}  // namespace

int32_t draw_token(std::span<const float> logits, double temperature, int64_t top_k, double u) {
  if (temperature == 0) top_k = 1;
  const std::vector<int32_t> ids = candidates(logits, top_k);
  if (ids.size() == 1) return ids[0];
  const double largest = logits[ids[0]];
  std::vector<double> cumulative(ids.size());
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i) cumulative[i] = sum += std::exp((logits[ids[i]] - largest) / temperature);
  const auto found = std::ranges::upper_bound(cumulative, u * sum);
  return ids[static_cast<size_t>(std::min<int64_t>(found - cumulative.begin(), static_cast<int64_t>(ids.size()) - 1))];
}

std::vector<int32_t> sample(Gpt2& model, std::span<const int32_t> context, const SampleOptions& options,
                            const TokenCallback& on_token) {
  check(model, context, options);
  const size_t longest = static_cast<size_t>(model.config().block_size);
  std::vector<int32_t> text(context.begin(), context.end());
  for (int64_t n = 0; n < options.max_tokens; ++n) {
    const size_t used = std::min(longest, text.size());
    std::vector<float> logits = model.next_token_logits(std::span(text).last(used));
    if (options.vocabulary_limit > 0 && options.vocabulary_limit < static_cast<int64_t>(logits.size())) {
      logits.resize(static_cast<size_t>(options.vocabulary_limit));
    }
    const double u = uniform_at(options.seed, kSamplingStream, static_cast<uint64_t>(n));
    const int32_t id = draw_token(logits, options.temperature, options.top_k, u);
    if (id == options.stop_id) break;
    text.push_back(id);
    if (on_token && !on_token(id)) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(context.size()), text.end()};
}

}  // namespace holdfast::model
