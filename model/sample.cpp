#include "model/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "model/decode/text_engine.h"

namespace holdfast::model {

std::vector<int32_t> sample(Decoder& decoder, std::span<const int32_t> context, const TextOptions& options,
                            const TokenCallback& on_token) {
  const auto longest = static_cast<size_t>(decoder.config().block_size);
  if (const auto problems = options.problems(); !problems.empty())
    throw std::invalid_argument(fmt::format("{}", fmt::join(problems, "; ")));
  TextEngine engine(decoder);
  std::vector<int32_t> text(context.begin(), context.end()), written;
  while (static_cast<int64_t>(written.size()) < options.max_tokens) {
    const auto window = std::span(text).last(std::min(longest, text.size()));
    Prompt prompt{.tokens = {window.begin(), window.end()}, .options = options};
    prompt.options.max_tokens = options.max_tokens - static_cast<int64_t>(written.size());
    prompt.options.drawn = options.drawn + static_cast<int64_t>(written.size());
    if (const auto added = engine.add(std::move(prompt)); !added) throw std::invalid_argument(added.error());
    while (!engine.is_idle()) {
      for (const TextProgress& progress : engine.step()) {
        for (const WrittenToken& token : progress.tokens) {
          text.push_back(token.token.id);
          written.push_back(token.token.id);
          if (on_token && !on_token(token.token.id)) return written;
        }
        if (progress.end == TextEnd::kStop) return written;
      }
    }
  }
  return written;
}

}  // namespace holdfast::model
