// One model's texts for many callers: a thread of its own runs the engine, pass after pass.
//
// Promises: `on_progress` is called after each pass, with the tokens that the text got in it, perhaps none, until it is told of
// an end or returns false: then the text is given up, and its pages are free for others. A text that is not written within its
// patience ends as kTimedOut. The texts that wait are bounded: more are refused as busy, with those of the same request.
// Refuses what TextEngine does. Thread: submit and load from any; on_progress on the server's own, where it must not block.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/decode/text_engine.h"

namespace holdfast::worker {

struct TextRefused {
  bool is_busy = false;  // the same may be asked again
  std::string why;
};

class TextServer {
 public:
  enum class Outcome : uint8_t { kGoesOn, kStop, kLength, kTimedOut };
  using OnProgress = std::function<bool(const std::vector<model::WrittenToken>& tokens, Outcome outcome)>;
  struct Order {
    model::Prompt prompt;
    OnProgress on_progress;
  };

  // The decoder outlives it.
  TextServer(model::Decoder& decoder, int64_t waiting_max);
  ~TextServer() = default;  // texts under way are dropped without a word
  TextServer(const TextServer&) = delete;

  // Takes all of them, or none and says why.
  std::optional<TextRefused> submit(std::vector<Order> orders, std::chrono::milliseconds patience);

  model::TextEngine::Load load() const;  // as it was after the last pass

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Order order;
    Clock::time_point deadline;
  };
  struct Text {
    OnProgress on_progress;
    Clock::time_point deadline;
  };
  void run(const std::stop_token& stop);
  void pass();

  const int64_t waiting_max_;
  model::TextEngine engine_;       // the thread's, but for refusal()
  std::map<int64_t, Text> texts_;  // the thread's
  mutable std::mutex mutex_;       // guards the next two fields
  std::vector<Waiting> inbox_;
  model::TextEngine::Load load_{};
  std::condition_variable_any filled_;
  std::jthread thread_;  // last: it uses all of these
};

}  // namespace holdfast::worker
