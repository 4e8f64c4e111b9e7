#include "worker/serving/text_server.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace holdfast::worker {

using rendezvous::TextOrder;
using rendezvous::TextOutcome;
using rendezvous::TextRefused;

namespace {

TextOutcome outcome_of(model::TextEnd end) {
  switch (end) {
    case model::TextEnd::kNotYet:
      break;
    case model::TextEnd::kStop:
      return TextOutcome::kStop;
    case model::TextEnd::kLength:
      return TextOutcome::kLength;
  }
  return TextOutcome::kGoesOn;
}

}  // namespace

TextServer::TextServer(model::Decoder& decoder, int64_t waiting_max, OnFailure on_failure)
    : waiting_max_(waiting_max),
      on_failure_(std::move(on_failure)),
      engine_(decoder),
      load_(engine_.load()),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

std::optional<TextRefused> TextServer::refusal_of(int64_t texts) const {
  const std::lock_guard lock(mutex_);
  return refusal_now(texts);
}

std::optional<TextRefused> TextServer::refusal_now(int64_t texts) const {
  if (failed_) return TextRefused{.is_busy = true, .why = "the model failed, and writes no more: try again later"};
  const int64_t waiting = load_.waiting + static_cast<int64_t>(inbox_.size());
  if (waiting == 0 || waiting + texts <= waiting_max_) return {};
  return TextRefused{.is_busy = true,
                     .why = fmt::format("{} texts wait already, of at most {}: try again later", waiting, waiting_max_)};
}

std::optional<TextRefused> TextServer::submit(std::vector<TextOrder> orders, std::chrono::milliseconds patience) {
  for (const TextOrder& order : orders) {
    if (auto why = engine_.refusal(order.prompt)) return TextRefused{.is_busy = false, .why = *std::move(why)};
  }
  const auto deadline = Clock::now() + patience;
  {
    const std::lock_guard lock(mutex_);
    if (auto refused = refusal_now(static_cast<int64_t>(orders.size()))) return refused;
    for (TextOrder& order : orders) inbox_.push_back({std::move(order), deadline});
  }
  filled_.notify_all();
  return {};
}

model::TextEngine::Load TextServer::load() const {
  const std::lock_guard lock(mutex_);
  model::TextEngine::Load load = load_;
  load.waiting += static_cast<int64_t>(inbox_.size());
  return load;
}

void TextServer::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Waiting> taken;
    {
      std::unique_lock lock(mutex_);
      if (engine_.is_idle()) filled_.wait(lock, stop, [&] { return !inbox_.empty(); });
      taken = std::exchange(inbox_, {});
      load_.waiting += static_cast<int64_t>(taken.size());  // until the engine has counted them
    }
    for (Waiting& waiting : taken) {
      const auto number = engine_.add(std::move(waiting.order.prompt));  // submit() has asked
      if (number) texts_[*number] = {std::move(waiting.order.on_progress), waiting.deadline};
    }
    try {
      if (!engine_.is_idle()) pass();
    } catch (const std::exception& failure) {
      if (!on_failure_) throw;
      return fail(failure);
    }
    const std::lock_guard lock(mutex_);
    load_ = engine_.load();
  }
}

void TextServer::fail(const std::exception& failure) {
  std::vector<Waiting> waiting;
  {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    waiting = std::exchange(inbox_, {});
  }
  for (auto& [number, text] : texts_) text.on_progress({}, TextOutcome::kLost);
  for (Waiting& text : waiting) text.order.on_progress({}, TextOutcome::kLost);
  texts_.clear();
  on_failure_(failure);
}

void TextServer::pass() {
  std::map<int64_t, model::TextProgress> heard;
  for (model::TextProgress& progress : engine_.step()) {
    const int64_t text = progress.text;
    heard[text] = std::move(progress);
  }
  const auto now = Clock::now();
  for (auto at = texts_.begin(); at != texts_.end();) {
    auto& [number, text] = *at;
    const auto found = heard.find(number);
    TextOutcome outcome = found == heard.end() ? TextOutcome::kGoesOn : outcome_of(found->second.end);
    if (outcome == TextOutcome::kGoesOn && now > text.deadline) outcome = TextOutcome::kTimedOut;
    const bool wants_more =
        text.on_progress(found == heard.end() ? std::vector<model::WrittenToken>() : found->second.tokens, outcome);
    if (wants_more && outcome == TextOutcome::kGoesOn) {
      ++at;
      continue;
    }
    engine_.cancel(number);
    at = texts_.erase(at);
  }
}

}  // namespace holdfast::worker
