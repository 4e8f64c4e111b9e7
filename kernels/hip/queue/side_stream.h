// A second stream for work that nobody needs at once: the gradients of weights, beside those of inputs.
//
// Its work comes after all that is in the main stream when it is put there (`begin`). Of each piece it is known which memory it
// reads and writes (`end`). Before work is put into the main stream it is said which memory that reads and writes (`make_way`),
// and the main stream waits for those pieces that it could disturb, or whose results it needs; or for all (`join`). So
// everything has the order that it would have in one stream, as far as anybody can tell by its results.
// Ownership: the streams outlive it. Throws DeviceError. Thread: the op set's.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <optional>
#include <vector>

#include "kernels/hip/runtime.h"

namespace holdfast::kernels::hip {

// Whether the environment leaves something on that it can turn off: HOLDFAST_GPU_SIDE_STREAM=0, HOLDFAST_GPU_GRAPHS=0.
bool is_wanted(const char* name);

struct MemoryRange {
  const void* begin;  // null: none
  size_t bytes;
};
bool overlap(const MemoryRange& a, const MemoryRange& b);

class SideStream {
 public:
  SideStream(const Stream& main, const Stream& side) : main_(main), side_(side) {}
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  // Work that is put into the side stream from now on comes after what is in the main stream now.
  void begin();
  // That work reads and writes this.
  void end(std::initializer_list<MemoryRange> reads, std::initializer_list<MemoryRange> writes);

  // Work that is put into the main stream from now on may read and write this.
  void make_way(std::initializer_list<MemoryRange> reads, std::initializer_list<MemoryRange> writes);
  // Work that is put into the main stream from now on may read and write everything.
  void join();
  // After a capture that came to nothing: what was put there is not.
  void forget() noexcept { pending_.clear(); }

 private:
  struct Piece {
    std::vector<MemoryRange> reads, writes;
    size_t over;  // the number of the event that comes after it
  };
  // Lets the main stream wait for the first `count` pieces.
  void wait_for(size_t count);

  const Stream &main_, &side_;
  std::deque<Piece> pending_;  // oldest first
  // Events are used again: a stream that waits for one waits for what it was when the wait was put there.
  static constexpr size_t kPieces = 8;
  std::optional<Event> begun_;
  std::array<std::optional<Event>, kPieces> over_;
  size_t next_ = 0;
};

}  // namespace holdfast::kernels::hip
