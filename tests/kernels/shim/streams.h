// Streams of the played runtime, and the capture that one may be in.
//
// A stream is a queue of work that is done when the host waits for it, and not before. A wait does what it waits for, and half
// of the waits do more, in an order that a seed decides: whatever events and waits allow, of the streams that the same thread
// made. So a copy or an event that is missing shows, if not with one seed then with another.
// Thread: the holder of the runtime's lock.
#pragma once

#include <hip/hip_runtime.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// Work that was recorded while streams were captured, each piece with those that it comes after.
struct ShimGraph {
  struct Node {
    std::function<void()> work;
    std::vector<size_t> after;  // numbers of nodes
    const ShimStream* of;       // the stream that it was put into
  };
  std::vector<Node> nodes;

  void run() const;  // in an order that the seed decides
};

struct ShimCapture {
  ShimStream* origin;
  hipStreamCaptureMode mode;
  std::thread::id thread = std::this_thread::get_id();
  bool is_valid = true, is_over = false;
  std::vector<ShimStream*> streams;
  std::shared_ptr<ShimGraph> graph = std::make_shared<ShimGraph>();
};

struct ShimStream {
  std::shared_ptr<ShimStream> self{this};     // until it is destroyed; streams that wait for it hold it, too
  std::deque<std::function<bool()>> waiting;  // whether it is done
  uint64_t done = 0, queued = 0;
  std::thread::id maker = std::this_thread::get_id();
  std::shared_ptr<ShimCapture> capture;  // null: none
  std::vector<size_t> after;             // of the capture's nodes, those that the stream's next one comes after

  void push(std::function<void()> what);  // to the queue or to the capture
  void push_waiting(std::function<bool()> what);
  bool run_as_far(uint64_t number);  // does what can be done without waiting, up to this number; whether that was all
  void run_until(uint64_t number);
};

struct ShimEvent {
  std::shared_ptr<ShimStream> stream;
  uint64_t after = 0;
  bool has_time = false;
  std::shared_ptr<std::chrono::steady_clock::time_point> passed;  // of the last record, once that work is done
  std::shared_ptr<ShimCapture> capture;                           // of the last record, if it was one of a captured stream
  std::vector<size_t> nodes;
};
