#include "worker/state/divided/filling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "storage/state_hash.h"
#include "worker/profile/span.h"
#include "worker/state/divided/owners.h"
#include "worker/state/divided/routes.h"

namespace holdfast::worker {
namespace {

using storage::PieceDigest;

constexpr double kShareOfStep = 0.1, kShortest_s = 0.01;  // of a window
constexpr double kGrowthMost = 4;
constexpr int64_t kWindowBytesMax = 256 << 20;

// Told by each rank with its digests.
struct Times {
  double window_s = 0, step_s = 0;
};

}  // namespace

Filling::Filling(Communicator& ring, Session& session, int64_t first_window)
    : ring_(ring), session_(session), first_window_(first_window), window_bytes_(first_window) {
  for (size_t c = 0; c < session.ownership.lacking.size(); ++c) {
    if (!session.ownership.lacking[c].empty()) chunks_.push_back(c);
  }
}

std::vector<size_t> Filling::pieces_of(size_t chunk) const {
  const size_t chunks = session_.sound.size();
  if (session_.state->copies_apart()) return {chunk, chunks + chunk, 2 * chunks + chunk};
  return {chunks + chunk, 2 * chunks + chunk};
}

Filling::Window Filling::next_window() const {
  const auto here = session_.state->pieces();
  Window window;
  for (size_t i = next_; i < chunks_.size(); ++i) {
    int64_t bytes = 0;
    for (const size_t piece : pieces_of(chunks_[i])) bytes += static_cast<int64_t>(here[piece].bytes);
    if (!window.chunks.empty() && window.bytes + bytes > window_bytes_) break;
    window.chunks.push_back(chunks_[i]);
    window.bytes += bytes;
  }
  return window;
}

RunResult<void> Filling::fill_some(double step_s) {
  if (is_done()) return {};
  const Span span(SpanKind::kRing, "parts that owners lack", session_.state->step);
  const Window window = next_window();
  const auto begun = std::chrono::steady_clock::now();
  if (auto moved = move(window); !moved) return moved;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (auto right = check(window, took.count(), step_s); !right) return right;
  take(window);
  return is_done() ? settle() : RunResult<void>();
}

RunResult<void> Filling::move(const Window& window) {
  const auto world_size = static_cast<size_t>(ring_.world_size());
  const auto me = static_cast<size_t>(ring_.rank());
  const auto here = session_.state->pieces();
  std::vector<RoutedPiece> pieces;
  for (const size_t c : window.chunks) {
    const RankSet holders = holders_of(session_.ownership, c, world_size);
    RankSet lacking(world_size);
    for (const int32_t rank : session_.ownership.lacking[c]) lacking[static_cast<size_t>(rank)] = true;
    const Way way = way_of(holders, lacking, ring_.rank());
    for (const size_t piece : pieces_of(c))
      pieces.push_back({holders[me] || lacking[me] ? here[piece].data : nullptr, here[piece].bytes, false, way});
  }
  session_.ops->synchronize();
  const auto passed = route(ring_, *session_.ops, pieces, "restore", session_.state->step);
  if (!passed) return tl::unexpected(ring_stop(passed.error()));
  return {};
}

RunResult<void> Filling::check(const Window& window, double window_s, double step_s) {
  const auto world_size = static_cast<size_t>(ring_.world_size());
  const auto me = static_cast<size_t>(ring_.rank());
  // Of each chunk the first rank that has it tells the digests of its pieces, in the window's order.
  std::vector<size_t> tellers;
  std::vector<std::vector<std::byte>> told(world_size, std::vector<std::byte>(sizeof(Times)));
  auto here = session_.state->pieces();
  std::vector<bool> looked_at(here.size());
  for (const size_t c : window.chunks) {
    const RankSet holders = holders_of(session_.ownership, c, world_size);
    tellers.push_back(static_cast<size_t>(std::ranges::find(holders, true) - holders.begin()));
    auto& of_teller = told[tellers.back()];
    of_teller.resize(of_teller.size() + pieces_of(c).size() * sizeof(PieceDigest));
    const auto& lacking = session_.ownership.lacking[c];
    const bool lacks = std::ranges::find(lacking, ring_.rank()) != lacking.end();
    for (const size_t piece : pieces_of(c)) looked_at[piece] = lacks || tellers.back() == me;
  }
  for (size_t piece = 0; piece < here.size(); ++piece) {
    if (!looked_at[piece]) here[piece].data = nullptr;
  }
  const auto mine = session_.state->digests(here);

  const Times times{window_s, step_s};
  std::memcpy(told[me].data(), &times, sizeof(Times));
  std::byte* next = told[me].data() + sizeof(Times);
  for (size_t i = 0; i < window.chunks.size(); ++i) {
    for (const size_t piece : pieces_of(window.chunks[i])) {
      if (tellers[i] == me) next = std::ranges::copy(mine[piece].value().bytes, next).out;
    }
  }
  std::vector<std::span<std::byte>> blocks(told.begin(), told.end());
  if (const auto gathered = ring_.all_gather_into(blocks); !gathered) return tl::unexpected(ring_stop(gathered.error()));

  std::vector<const std::byte*> read;
  for (const auto& block : told) read.push_back(block.data() + sizeof(Times));
  for (size_t i = 0; i < window.chunks.size(); ++i) {
    for (const size_t piece : pieces_of(window.chunks[i])) {
      PieceDigest right;
      std::memcpy(&right, std::exchange(read[tellers[i]], read[tellers[i]] + sizeof(right)), sizeof(right));
      if (mine[piece] && *mine[piece] != right) {
        return tl::unexpected(
            fault("connection_lost",
                  fmt::format("piece {} of the state came altered to rank {} after step {}", piece, me, session_.state->step),
                  static_cast<int>(me)));
      }
    }
  }
  adapt(told);
  return {};
}

// The next window is to take about its share of a step on the rank where this one took longest.
void Filling::adapt(const std::vector<std::vector<std::byte>>& told) {
  Times longest;
  for (const auto& block : told) {
    Times times;
    std::memcpy(&times, block.data(), sizeof(Times));
    longest = {std::max(longest.window_s, times.window_s), std::max(longest.step_s, times.step_s)};
  }
  const double wanted_s = std::max(kShortest_s, kShareOfStep * longest.step_s);
  const double growth = std::clamp(wanted_s / std::max(longest.window_s, 1e-6), 1 / kGrowthMost, kGrowthMost);
  const auto bytes = static_cast<int64_t>(std::llround(static_cast<double>(window_bytes_) * growth));
  window_bytes_ = std::clamp(bytes, std::min(first_window_, kWindowBytesMax), kWindowBytesMax);
}

void Filling::take(const Window& window) {
  const auto me = static_cast<size_t>(ring_.rank());
  const auto lacked = lacked_by(session_.ownership, me);
  for (const size_t c : window.chunks) {
    session_.sound[c] = session_.sound[c] || lacked[c];
    session_.ownership.lacking[c].clear();
  }
  next_ += window.chunks.size();
  session_.state->await(lacked_by(session_.ownership, me));
}

// Ranks let go of what they do not own any more when all have said that they have what they own.
RunResult<void> Filling::settle() {
  const std::byte all_here{1};
  if (const auto said = ring_.all_gather({&all_here, 1}); !said) return tl::unexpected(ring_stop(said.error()));
  const Ownership whole = settled(session_.ownership.target, session_.sound.size());
  own_what_is_said(session_, whole, static_cast<size_t>(ring_.rank()), static_cast<size_t>(ring_.world_size()));
  return {};
}

}  // namespace holdfast::worker
