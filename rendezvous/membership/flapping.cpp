#include "rendezvous/membership/flapping.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/membership/growing_pause.h"

namespace holdfast::rendezvous {
namespace {

constexpr int64_t kGoodLifeMs = 60'000, kFirstPauseMs = 5'000, kLongestPauseMs = 300'000;
constexpr int64_t kLossesFree = 3;

}  // namespace

void note_life(LossRecord& record, int64_t now_ms) {
  record.began_ms = now_ms;
}

bool note_loss(LossRecord& record, int64_t now_ms) {
  // Idling through a pause is no proof of health.
  const int64_t began_ms = std::min(std::max(record.began_ms, record.held_until_ms), now_ms);
  const bool good = now_ms - began_ms >= kGoodLifeMs;
  record.short_lives = good ? 0 : record.short_lives + 1;
  if (record.short_lives <= kLossesFree) return false;
  record.held_until_ms = now_ms + growing_pause(kFirstPauseMs, kLongestPauseMs, record.short_lives - kLossesFree);
  return true;
}

int64_t held_back_ms(const LossRecord& record, int64_t now_ms) {
  const int64_t left_ms = record.held_until_ms - now_ms;
  return left_ms > kLongestPauseMs ? 0 : std::max<int64_t>(0, left_ms);
}

std::string held_back_in_words(const std::string& worker, const LossRecord& record, int64_t now_ms) {
  return fmt::format(
      "{} was lost {} times in a row, each time within a minute: it is given no work for {} s unless a job "
      "cannot train without it; a minute of work forgives",
      worker, record.short_lives, (held_back_ms(record, now_ms) + 999) / 1000);
}

}  // namespace holdfast::rendezvous
