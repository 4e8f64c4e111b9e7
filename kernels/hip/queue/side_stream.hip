// The events between the two streams, and who has to wait.
#include "kernels/hip/queue/side_stream.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>

namespace holdfast::kernels::hip {
namespace {

void take(std::optional<Event>& event, const Stream& stream) {
  if (event) {
    event->take(stream);
  } else {
    event.emplace(stream);
  }
}

bool any_overlap(const std::vector<MemoryRange>& some, std::initializer_list<MemoryRange> others) {
  return std::ranges::any_of(some, [&](const MemoryRange& a) {
    return std::ranges::any_of(others, [&](const MemoryRange& b) { return overlap(a, b); });
  });
}

}  // namespace

bool overlap(const MemoryRange& a, const MemoryRange& b) {
  if (a.begin == nullptr || b.begin == nullptr) return false;
  const auto* const a_begin = static_cast<const std::byte*>(a.begin);
  const auto* const b_begin = static_cast<const std::byte*>(b.begin);
  const std::less<> less;
  return less(a_begin, b_begin + b.bytes) && less(b_begin, a_begin + a.bytes);
}

bool is_wanted(const char* name) {
  const char* const said = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return said == nullptr || std::string_view(said) != "0";
}

void SideStream::begin() {
  if (pending_.size() == kPieces) wait_for(1);
  take(begun_, main_);
  begun_->hold_up(side_);
}

void SideStream::end(std::initializer_list<MemoryRange> reads, std::initializer_list<MemoryRange> writes) {
  const size_t number = next_++ % kPieces;
  take(over_[number], side_);
  pending_.push_back({reads, writes, number});
}

void SideStream::make_way(std::initializer_list<MemoryRange> reads, std::initializer_list<MemoryRange> writes) {
  const auto disturbed = std::ranges::find_if(pending_.rbegin(), pending_.rend(), [&](const Piece& piece) {
    return any_overlap(piece.reads, writes) || any_overlap(piece.writes, writes) || any_overlap(piece.writes, reads);
  });
  wait_for(static_cast<size_t>(pending_.rend() - disturbed));
}

void SideStream::join() {
  wait_for(pending_.size());
}

void SideStream::wait_for(size_t count) {
  if (count == 0) return;
  over_[pending_[count - 1].over]->hold_up(main_);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace holdfast::kernels::hip
