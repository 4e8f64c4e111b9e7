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
#include "worker/state/divided/division.h"
#include "worker/state/divided/holdings.h"
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

Filling::Filling(Communicator& ring, Session& session, FillingWindows windows)
    : ring_(ring),
      session_(session),
      windows_(windows),
      copies_at_(kinds_of_told(session).copies_at.value_or(0)),
      window_bytes_(windows.first_bytes) {
  const Ownership& ownership = session.ownership;
  for (size_t c = 0; c < ownership.without_copy.size() && session.state->copies_stay(); ++c) {
    if (!ownership.without_copy[c].empty()) items_.push_back({c, true});
  }
  for (size_t c = 0; c < ownership.lacking.size(); ++c) {
    if (!ownership.lacking[c].empty()) items_.push_back({c, false});
  }
}

std::vector<size_t> Filling::pieces_of(const Item& item) const {
  const auto& [chunk, is_copy] = item;
  const size_t chunks = session_.sound.size();
  if (is_copy) return {copies_at_ + chunk};
  if (session_.state->copies_apart()) return {chunk, chunks + chunk, 2 * chunks + chunk};
  return {chunks + chunk, 2 * chunks + chunk};
}

RankSet Filling::lacking(const Item& item) const {
  RankSet lacking(static_cast<size_t>(ring_.world_size()));
  const Ownership& ownership = session_.ownership;
  for (const int32_t rank : item.is_copy ? ownership.without_copy[item.chunk] : ownership.lacking[item.chunk])
    lacking[static_cast<size_t>(rank)] = true;
  return lacking;
}

RankSet Filling::having(const Item& item) const {
  if (!item.is_copy) return holders_of(session_.ownership, item.chunk, static_cast<size_t>(ring_.world_size()));
  RankSet having = lacking(item);
  having.flip();
  return having;
}

Filling::Window Filling::next_window() const {
  const auto here = told_pieces(session_);
  int64_t bytes = 0;
  size_t last = next_;
  for (; last < items_.size(); ++last) {
    for (const size_t piece : pieces_of(items_[last])) bytes += static_cast<int64_t>(here[piece].bytes);
    if (last > next_ && bytes > window_bytes_) break;
  }
  return Window(items_).subspan(next_, last - next_);
}

RunResult<void> Filling::fill_some(double step_s) {
  if (is_done()) return {};
  // In float32, after steps that were left out: an owner that takes moments has the parameters before.
  if (!session_.state->copies_apart() && !session_.ownership.copies_are_here()) return {};
  const Span span(SpanKind::kRing, "parts that ranks lack", session_.state->step);
  const Window window = next_window();
  const auto begun = std::chrono::steady_clock::now();
  if (auto moved = move(window); !moved) return moved;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (auto right = check(window, took.count(), step_s); !right) return right;
  take(window);
  return is_done() ? settle() : RunResult<void>();
}

RunResult<void> Filling::move(Window window) {
  const auto me = static_cast<size_t>(ring_.rank());
  const auto here = told_pieces(session_);
  std::vector<RoutedPiece> pieces;
  for (const Item& item : window) {
    const RankSet has = having(item), lacks = lacking(item);
    const Way way = way_of(has, lacks, ring_.rank());
    for (const size_t piece : pieces_of(item))
      pieces.push_back({has[me] || lacks[me] ? here[piece].data : nullptr, here[piece].bytes, here[piece].on_host, way});
  }
  session_.ops->synchronize();
  const auto passed = route(ring_, *session_.ops, pieces, "restore", session_.state->step);
  if (!passed) return tl::unexpected(ring_stop(passed.error()));
  return {};
}

RunResult<void> Filling::check(Window window, double window_s, double step_s) {
  const auto world_size = static_cast<size_t>(ring_.world_size());
  const auto me = static_cast<size_t>(ring_.rank());
  // Of each item the first rank that has it tells the digests of its pieces, in the window's order.
  std::vector<size_t> tellers;
  std::vector<std::vector<std::byte>> told(world_size, std::vector<std::byte>(sizeof(Times)));
  auto here = told_pieces(session_);
  std::vector<bool> looked_at(here.size());
  for (const Item& item : window) {
    const RankSet has = having(item);
    tellers.push_back(static_cast<size_t>(std::ranges::find(has, true) - has.begin()));
    auto& of_teller = told[tellers.back()];
    of_teller.resize(of_teller.size() + pieces_of(item).size() * sizeof(PieceDigest));
    const bool looks = lacking(item)[me] || tellers.back() == me;
    for (const size_t piece : pieces_of(item)) looked_at[piece] = looks;
  }
  for (size_t piece = 0; piece < here.size(); ++piece) {
    if (!looked_at[piece]) here[piece].data = nullptr;
  }
  const auto mine = session_.state->digests(here);

  const Times times{window_s, step_s};
  std::memcpy(told[me].data(), &times, sizeof(Times));
  std::byte* next = told[me].data() + sizeof(Times);
  for (size_t i = 0; i < window.size(); ++i) {
    for (const size_t piece : pieces_of(window[i])) {
      if (tellers[i] == me) next = std::ranges::copy(mine[piece].value().bytes, next).out;
    }
  }
  std::vector<std::span<std::byte>> blocks(told.begin(), told.end());
  if (const auto gathered = ring_.all_gather_into(blocks); !gathered) return tl::unexpected(ring_stop(gathered.error()));

  std::vector<const std::byte*> read;
  for (const auto& block : told) read.push_back(block.data() + sizeof(Times));
  for (size_t i = 0; i < window.size(); ++i) {
    for (const size_t piece : pieces_of(window[i])) {
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
  const double share_s = kShareOfStep * longest.step_s;
  const double wanted_s = std::max(kShortest_s, some_chunk_is_at_risk() ? share_s : std::min(share_s, kLongestWindow_s));
  const double to_wanted = std::clamp(wanted_s / std::max(longest.window_s, 1e-6), 1 / kGrowthMost, kGrowthMost);
  const double growth = windows_.are_paced ? to_wanted : kGrowthMost;
  const auto bytes = static_cast<int64_t>(std::llround(static_cast<double>(window_bytes_) * growth));
  window_bytes_ = std::clamp(bytes, std::min(windows_.first_bytes, kWindowBytesMax), kWindowBytesMax);
}

// Whether a chunk is on fewer ranks than it is to be.
bool Filling::some_chunk_is_at_risk() const {
  return std::ranges::any_of(items_.begin() + static_cast<std::ptrdiff_t>(next_), items_.end(), [this](const Item& item) {
    if (item.is_copy) return false;
    const RankSet has = having(item);
    return std::ranges::count(has, true) < session_.ownership.target.replicas;
  });
}

void Filling::take(Window window) {
  const auto me = static_cast<size_t>(ring_.rank());
  const auto lacked = lacked_by(session_.ownership, me), to_come = copies_to_come(session_.ownership, me);
  bool copies_came = false;
  for (const auto& [chunk, is_copy] : window) {
    if (is_copy) {
      copies_came |= to_come[chunk];
      session_.copied[chunk] = true;
      session_.ownership.without_copy[chunk].clear();
    } else {
      session_.sound[chunk] = session_.sound[chunk] || lacked[chunk];
      session_.ownership.lacking[chunk].clear();
    }
  }
  next_ += window.size();
  session_.state->await(lacked_by(session_.ownership, me));
  if (copies_came) session_.state->copies_changed();
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
