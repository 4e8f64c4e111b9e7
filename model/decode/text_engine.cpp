#include "model/decode/text_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace holdfast::model {

namespace {

constexpr auto kPage = kernels::kPageTokens;

int64_t size_of(const std::vector<int32_t>& tokens) {
  return static_cast<int64_t>(tokens.size());
}

}  // namespace

TextEngine::TextEngine(Decoder& decoder) : decoder_(decoder), pool_(decoder.limits().pages) {
  assert(decoder.limits().rows >= 2 && decoder.limits().answers >= decoder.limits().rows / 2);
  counted_.pages = pool_.pages();
}

std::optional<std::string> refusal_of(const Prompt& prompt, int64_t vocab_size, int64_t block_size) {
  const TextOptions& options = prompt.options;
  if (const auto problems = options.problems(); !problems.empty()) return fmt::format("{}", fmt::join(problems, "; "));
  if (prompt.tokens.empty()) return "prompt: no tokens, expected at least one";
  if (options.max_tokens == 0 && !prompt.prompt_losses) return "max_tokens: 0, expected at least 1";
  if (size_of(prompt.written) > 0 && size_of(prompt.written) >= options.max_tokens)
    return fmt::format("max_tokens: {} tokens are written already, of {}", prompt.written.size(), options.max_tokens);
  for (const auto* tokens : {&prompt.tokens, &prompt.written}) {
    const auto wrong = std::ranges::find_if(*tokens, [&](int32_t id) { return id < 0 || id >= vocab_size; });
    if (wrong != tokens->end())
      return fmt::format(
          "prompt: token {} is not below the model's vocab_size {}: the tokenizer is not the one the model was "
          "trained with",
          *wrong, vocab_size);
  }
  const int64_t known = size_of(prompt.tokens) + size_of(prompt.written);
  if (known > block_size)
    return fmt::format("prompt: {} tokens, expected at most the model's block_size {}", known, block_size);
  return {};
}

std::optional<std::string> TextEngine::refusal(const Prompt& prompt) const {
  const Gpt2Config& config = decoder_.config();
  if (auto why = refusal_of(prompt, config.vocab_size, config.block_size)) return why;
  const int64_t longest = std::min(config.block_size, size_of(prompt.tokens) + prompt.options.max_tokens);
  if (decoder_.pages_of(longest) > pool_.pages())
    return fmt::format(
        "max_tokens: a text of {} tokens needs {} pages of {}, and there are {}: give the model more memory for "
        "keys and values",
        longest, decoder_.pages_of(longest), kPage, pool_.pages());
  return {};
}

tl::expected<int64_t, std::string> TextEngine::add(Prompt prompt) {
  if (auto why = refusal(prompt)) return tl::make_unexpected(*std::move(why));
  auto text = std::make_unique<Text>();
  text->tokens = prompt.tokens;
  text->tokens.insert(text->tokens.end(), prompt.written.begin(), prompt.written.end());
  text->own = size_of(prompt.written);
  text->told = 1;
  text->prompt = std::move(prompt);
  texts_.emplace(next_number_, std::move(text));
  return next_number_++;
}

void TextEngine::cancel(int64_t text) {
  const auto found = texts_.find(text);
  if (found == texts_.end()) return;
  give_up_pages(*found->second);
  texts_.erase(found);
}

// The pages that are there already. Its last token is fed in any case, for its logits; and all whose losses are wanted.
void TextEngine::begin(Text& text) {
  text.is_running = true;
  counted_.prompt_tokens += size_of(text.tokens);
  if (text.prompt.prompt_losses && text.told < size_of(text.prompt.tokens)) return;
  while (text.fed + kPage < size_of(text.tokens)) {
    const PagePool::Key key = PagePool::key_after(
        text.key, std::span(text.tokens).subspan(static_cast<size_t>(text.fed), static_cast<size_t>(kPage)));
    const auto page = pool_.hold(key);
    if (!page) break;
    text.pages.push_back(*page);
    text.key = key;
    ++text.pages_keyed;
    text.fed += kPage;
  }
  counted_.prompt_tokens_found += text.fed;
}

// The last pages first: the first ones are of use to more texts.
void TextEngine::give_up_pages(Text& text) {
  for (auto page = text.pages.rbegin(); page != text.pages.rend(); ++page) pool_.let_go(*page);
  text.pages.clear();
  text.pages_keyed = 0;
  text.key = {};
  text.fed = 0;
  text.is_running = false;
}

// Pages for so many more of its tokens, if need be those of texts that came later: the last one first.
bool TextEngine::make_room(Text& text, int64_t count) {
  while (size_of(text.pages) < decoder_.pages_of(text.fed + count)) {
    auto page = pool_.take();
    for (auto other = texts_.rbegin(); !page && other->second.get() != &text; ++other) {
      if (other->second->pages.empty()) continue;
      give_up_pages(*other->second);
      ++counted_.began_again;
      page = pool_.take();
    }
    if (!page) return false;
    text.pages.push_back(*page);
  }
  return true;
}

// By age: each text that writes has a row; those that read their prompts have the rest, the oldest first.
std::vector<TextEngine::Part> TextEngine::parts_of_a_pass() {
  const Decoder::Limits& limits = decoder_.limits();
  const int64_t most = std::min(limits.rows / 2, limits.answers);
  int64_t running = 0, writing = 0;
  for (const auto& [number, text] : texts_) {
    running += text->is_running ? 1 : 0;
    writing += text->is_running && text->fed + 1 == size_of(text->tokens) ? 1 : 0;
  }
  int64_t rows = limits.rows - writing, answers = limits.answers - running;  // for reading; beside one answer for each
  std::vector<Part> parts;
  for (auto& [number, text] : texts_) {
    const bool has_a_row = text->is_running && text->fed + 1 == size_of(text->tokens);
    if (!text->is_running) {
      if (rows == 0 || answers == 0 || running == most) continue;
      begin(*text);
      ++running, --answers;
    }
    const int64_t left = size_of(text->tokens) - text->fed;
    const bool tells = text->prompt.prompt_losses && text->told < size_of(text->prompt.tokens);
    int64_t count = has_a_row ? 1 : std::min(left, rows);
    if (tells) count = std::min(count, answers + 1);
    if (count == 0) continue;
    if (!make_room(*text, count)) {
      // The texts before it need what there is. It begins again when there is more.
      give_up_pages(*text);
      ++counted_.began_again;
      continue;
    }
    if (!has_a_row) rows -= count;
    if (tells) answers -= count - 1;
    parts.push_back({number, text.get(), count, tells ? count : count == left ? 1 : 0});
  }
  return parts;
}

void TextEngine::keep_full_pages(Text& text) {
  while ((text.pages_keyed + 1) * kPage <= text.fed) {
    const auto first = static_cast<size_t>(text.pages_keyed * kPage);
    text.key = PagePool::key_after(text.key, std::span(text.tokens).subspan(first, static_cast<size_t>(kPage)));
    pool_.keep(text.pages[static_cast<size_t>(text.pages_keyed)], text.key);
    ++text.pages_keyed;
  }
}

TextEnd TextEngine::end_of(const Text& text, int32_t next) const {
  if (std::ranges::find(text.prompt.options.stop_ids, next) != text.prompt.options.stop_ids.end()) return TextEnd::kStop;
  const bool is_full =
      text.own + 1 >= text.prompt.options.max_tokens || size_of(text.tokens) + 1 > decoder_.config().block_size;
  return is_full ? TextEnd::kLength : TextEnd::kNotYet;
}

std::vector<TextProgress> TextEngine::step() {
  const std::vector<Part> parts = parts_of_a_pass();
  if (parts.empty()) return {};
  std::vector<Feed> feeds;
  size_t alternatives = 0;
  for (const Part& part : parts) {
    const auto fed = static_cast<size_t>(part.text->fed), count = static_cast<size_t>(part.count);
    feeds.push_back({std::span(part.text->tokens).subspan(fed, count), part.text->fed, part.text->pages, part.answers});
    if (part.answers > 0) alternatives = std::max(alternatives, static_cast<size_t>(part.text->prompt.alternatives));
  }
  ++counted_.passes;
  std::span<const float> logits = decoder_.feed(feeds);
  const auto V = static_cast<size_t>(decoder_.config().vocab_size);

  // The token that comes after each answer's, and what else might have: its text's, or the prompt's.
  std::vector<int32_t> ids;
  for (const Part& part : parts) {
    Text& text = *part.text;
    text.fed += part.count;
    keep_full_pages(text);
    for (int64_t position = text.fed - part.answers; position < text.fed; ++position, logits = logits.subspan(V)) {
      const std::span<const float> row = logits.first(V);
      const bool is_last = position + 1 == size_of(text.tokens);
      ids.push_back(is_last ? choose_token(text.prompt.options, text.tokens, text.own, row)
                            : text.tokens[static_cast<size_t>(position) + 1]);
      const std::vector<int32_t> others =
          text.prompt.alternatives == 0 ? std::vector<int32_t>() : likeliest(row, text.prompt.alternatives);
      ids.insert(ids.end(), others.begin(), others.end());
      ids.resize(ids.size() + alternatives - others.size());
    }
  }
  const std::vector<float> losses = ids.empty() ? std::vector<float>() : decoder_.losses(ids);

  std::vector<TextProgress> all;
  size_t at = 0;
  for (const Part& part : parts) {
    Text& text = *part.text;
    TextProgress progress{.text = part.number, .tokens = {}, .end = TextEnd::kNotYet};
    for (int64_t position = text.fed - part.answers; position < text.fed; ++position) {
      WrittenToken token{
          .token = {ids[at], -losses[at]}, .alternatives = {}, .of_prompt = position + 1 < size_of(text.prompt.tokens)};
      for (size_t i = at + 1; i < at + 1 + static_cast<size_t>(text.prompt.alternatives); ++i)
        token.alternatives.push_back({ids[i], -losses[i]});
      at += 1 + alternatives;
      if (token.of_prompt) {
        if (position + 1 != text.told) continue;
        ++text.told;
        progress.tokens.push_back(std::move(token));
      } else if (position + 1 == size_of(text.tokens)) {
        progress.end = text.prompt.options.max_tokens == 0 ? TextEnd::kLength : end_of(text, token.token.id);
        if (progress.end == TextEnd::kStop || text.prompt.options.max_tokens == 0) break;
        text.tokens.push_back(token.token.id);
        ++text.own;
        ++counted_.written_tokens;
        progress.tokens.push_back(std::move(token));
      }
    }
    const bool has_ended = progress.end != TextEnd::kNotYet;
    if (has_ended || !progress.tokens.empty()) all.push_back(std::move(progress));
    if (has_ended) cancel(part.number);
  }
  return all;
}

TextEngine::Load TextEngine::load() const {
  Load load = counted_;
  for (const auto& [number, text] : texts_) {
    ++(!text->is_running ? load.waiting : text->fed + 1 < size_of(text->tokens) ? load.reading : load.writing);
  }
  load.pages_held = pool_.held();
  load.pages_kept = pool_.kept();
  return load;
}

}  // namespace holdfast::model
