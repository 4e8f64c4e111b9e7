// One model's texts for many callers: a thread of its own runs the engine, pass after pass.
//
// Promises: those of the seam (texts.h), with `on_progress` called after each pass; the pages of a text that is given up are
// free for others. Refuses what TextEngine does. Thread: submit and load from any; on_progress on the server's own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/decode/text_engine.h"
#include "rendezvous/completions/texts.h"

namespace holdfast::worker {

class TextServer : public rendezvous::Texts {
 public:
  // On the server's thread, when the decoder threw: every text has ended as kLost, and none is taken any more.
  using OnFailure = std::function<void(const std::exception& failure)>;

  // The decoder outlives it. Without `on_failure` its exceptions end the program.
  TextServer(model::Decoder& decoder, int64_t waiting_max, OnFailure on_failure = nullptr);
  ~TextServer() override = default;  // texts under way are dropped without a word
  TextServer(const TextServer&) = delete;

  std::optional<rendezvous::TextRefused> submit(std::vector<rendezvous::TextOrder> orders,
                                                std::chrono::milliseconds patience) override;
  std::optional<rendezvous::TextRefused> refusal_of(int64_t texts) const override;

  model::TextEngine::Load load() const;  // as it was after the last pass

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    rendezvous::TextOrder order;
    Clock::time_point deadline;
  };
  struct Text {
    rendezvous::TextOrder::OnProgress on_progress;
    Clock::time_point deadline;
  };
  void run(const std::stop_token& stop);
  void pass();
  void fail(const std::exception& failure);
  std::optional<rendezvous::TextRefused> refusal_now(int64_t texts) const;  // with the mutex

  const int64_t waiting_max_;
  const OnFailure on_failure_;
  model::TextEngine engine_;       // the thread's, but for refusal()
  std::map<int64_t, Text> texts_;  // the thread's
  mutable std::mutex mutex_;       // guards the next three fields
  std::vector<Waiting> inbox_;
  model::TextEngine::Load load_{};
  bool failed_ = false;
  std::condition_variable_any filled_;
  std::jthread thread_;  // last: it uses all of these
};

}  // namespace holdfast::worker
