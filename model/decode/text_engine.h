// Many texts at once from one model: each pass takes the next token of every text that is being written, and as much of the
// prompts that wait as there is room for ("continuous batching").
//
// Promises: a text is a function of (the decoder's parameters and numerics, its prompt, its options), whatever else is written
// beside it, in whatever order, on however many pages, and whether its prompt's beginning was found or computed. A text that
// was written to some token elsewhere (Prompt::written) goes on as it would have there. Texts whose pages are all taken wait
// and are computed again, oldest first; none starves. cancel() lets a text's pages go at once. Refuses (add): a prompt without
// tokens, or with tokens that the model has not; options without meaning; a text that has more positions than the model or the
// pages. Pure: no clock, no I/O. Thread: that of the decoder.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/decode/choice.h"
#include "model/decode/decoder.h"
#include "model/decode/page_pool.h"

namespace holdfast::model {

enum class TextEnd : uint8_t { kNotYet, kStop, kLength };

struct Prompt {
  std::vector<int32_t> tokens = {};
  std::vector<int32_t> written = {};  // the text's own first tokens, if it was begun elsewhere: the next one is written
  TextOptions options = {};
  int64_t alternatives = 0;    // of each token, log-probabilities of so many of the likeliest
  bool prompt_losses = false;  // tell of the prompt's tokens, too, from the second on
};

// The reason why no engine could write it with a model of these sizes; nothing when one may.
std::optional<std::string> refusal_of(const Prompt& prompt, int64_t vocab_size, int64_t block_size);

struct TokenChance {
  int32_t id;
  float log_probability;  // by the model, whatever the options make of it
};

// A token of a text. `alternatives`: the likeliest first.
struct WrittenToken {
  TokenChance token{};
  std::vector<TokenChance> alternatives = {};
  bool of_prompt = false;
};

struct TextProgress {
  int64_t text;
  std::vector<WrittenToken> tokens = {};  // new since the last pass
  TextEnd end = TextEnd::kNotYet;         // otherwise the text is gone with this
};

class TextEngine {
 public:
  // The decoder outlives the engine. Of its limits rows is at least 2, and answers at least half of it.
  explicit TextEngine(Decoder& decoder);

  // The reason why it cannot be written; nothing when it can. Any thread.
  std::optional<std::string> refusal(const Prompt& prompt) const;
  tl::expected<int64_t, std::string> add(Prompt prompt);  // the text's number; never used again
  void cancel(int64_t text);                              // no error when it has ended

  bool is_idle() const { return texts_.empty(); }
  // One pass. All of it that somebody is to hear, by text's number.
  std::vector<TextProgress> step();

  struct Load {
    int64_t writing, reading, waiting;  // texts: with their prompts read; in part; not begun
    int64_t pages, pages_held, pages_kept;
    int64_t prompt_tokens, prompt_tokens_found, written_tokens, passes, began_again;  // since the start
  };
  Load load() const;

 private:
  struct Text {
    Prompt prompt;
    std::vector<int32_t> tokens;  // the prompt's and the text's own
    int64_t own = 0;              // of them the text's own
    int64_t fed = 0;              // tokens with keys and values in `pages`
    int64_t told = 0;             // of the prompt's tokens, with prompt_losses: up to here
    std::vector<int32_t> pages;
    int64_t pages_keyed = 0;  // of them full and kept
    PagePool::Key key{};      // of the last of these
    bool is_running = false;
  };
  struct Part {  // of a pass
    int64_t number;
    Text* text;
    int64_t count, answers;
  };
  void begin(Text& text);
  bool make_room(Text& text, int64_t count);
  void give_up_pages(Text& text);
  std::vector<Part> parts_of_a_pass();
  void keep_full_pages(Text& text);
  TextEnd end_of(const Text& text, int32_t next) const;

  Decoder& decoder_;
  PagePool pool_;
  std::map<int64_t, std::unique_ptr<Text>> texts_;  // by age
  int64_t next_number_ = 1;
  Load counted_{};
};

}  // namespace holdfast::model
