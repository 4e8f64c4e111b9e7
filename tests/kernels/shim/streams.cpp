// The runtime's functions for streams, events and copies.
#include "tests/kernels/shim/streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/kernels/shim/fenced_memory.h"
#include "tests/kernels/shim/runtime.h"

namespace {

using shim::Call;
using shim::error_to_return;
using shim::told;

std::vector<ShimStream*> streams;  // all there are
int64_t waits = 0, wait_left_out = 0;

}  // namespace

void ShimStream::push(std::function<void()> what) {
  if (capture) {
    capture->graph->nodes.push_back({std::move(what), after, this});
    after = {capture->graph->nodes.size() - 1};
    return;
  }
  push_waiting([what = std::move(what)] {
    what();
    return true;
  });
}
void ShimStream::push_waiting(std::function<bool()> what) {
  waiting.push_back(std::move(what));
  ++queued;
}
bool ShimStream::run_as_far(uint64_t number) {
  const shim::FencedMemory::Opened opened;
  while (done < number) {
    auto next = std::move(waiting.front());
    waiting.pop_front();
    ++done;  // counted before it runs, because it may wait for an event of this stream
    if (next()) continue;
    --done;
    waiting.push_front(std::move(next));
    return false;
  }
  return true;
}
void ShimStream::run_until(uint64_t number) {
  const shim::FencedMemory::Opened opened;  // once: to move the fence takes long where there is much memory
  std::vector<std::shared_ptr<ShimStream>> others;
  if (shim::random_below(2) == 0) {
    for (const ShimStream* stream : streams) {
      if (stream->maker == maker) others.push_back(stream->self);
    }
  }
  while (!others.empty() && done < number) {
    ShimStream& chosen = *others[shim::random_below(others.size())];
    const uint64_t pieces = uint64_t{1} << shim::random_below(4);
    if (!chosen.run_as_far(std::min(chosen.queued, chosen.done + pieces)) && &chosen == this) break;
  }
  while (!run_as_far(number)) std::this_thread::yield();
}

namespace shim {

hipError_t launch(unsigned blocks, unsigned threads, hipStream_t stream, std::function<void()> body) {
  const Call call;
  if (call.fails) return error_to_return();
  if (blocks == 0) return told(hipErrorInvalidValue);
  stream->push([blocks, threads, body = std::move(body)] { run_blocks(blocks, threads, body); });
  return hipSuccess;
}

void put(hipStream_t stream, std::function<bool()> work) {
  const std::lock_guard lock(runtime_lock());
  if (stream->capture) give_up("a stream that is captured was given work that waits for other processes");
  stream->push_waiting(std::move(work));
}

int64_t waits_so_far() {
  return waits;
}
void leave_out_wait(int64_t n) {
  const std::lock_guard lock(runtime_lock());
  wait_left_out = n == 0 ? 0 : waits + n;
}

}  // namespace shim

hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind, hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  if (bytes > 0) stream->push([=] { std::memcpy(to, from, bytes); });
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  stream->push([=] { std::memset(memory, value, bytes); });
  return hipSuccess;
}
hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const Call call;
  if (call.fails) return error_to_return();
  *least = 1;
  *greatest = -1;
  return hipSuccess;
}
// Priorities are wishes, which no order of work has to heed.
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned, int) {
  const Call call;
  if (call.fails) return error_to_return();
  *stream = new ShimStream;
  streams.push_back(*stream);
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  while (!stream->run_as_far(stream->queued)) std::this_thread::yield();
  std::erase(streams, stream);
  stream->self.reset();
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  if (stream->capture) stream->capture->is_valid = false;
  if (stream->capture || shim::is_forbidden_by_capture()) return told(hipErrorStreamCaptureUnsupported);
  stream->run_until(stream->queued);
  return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  const Call call;
  if (call.fails) return error_to_return();
  if (++waits == wait_left_out) return hipSuccess;
  if (event->capture) {
    if (event->capture->is_over) return told(hipErrorCapturedEvent);
    if (!stream->capture) {
      stream->capture = event->capture;
      stream->capture->streams.push_back(stream);
    }
    if (stream->capture != event->capture) {
      stream->capture->is_valid = event->capture->is_valid = false;
      return told(hipErrorStreamCaptureIsolation);
    }
    stream->after.insert(stream->after.end(), event->nodes.begin(), event->nodes.end());
    return hipSuccess;
  }
  if (event->stream == nullptr) return hipSuccess;
  if (stream->capture) {
    stream->capture->is_valid = false;
    return told(hipErrorStreamCaptureIsolation);
  }
  stream->push_waiting([other = event->stream, after = event->after] { return other->run_as_far(after); });
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  const Call call;
  if (call.fails) return error_to_return();
  *event = new ShimEvent;
  (*event)->has_time = (flags & hipEventDisableTiming) == 0;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  const Call call;
  if (call.fails) return error_to_return();
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  event->capture = stream->capture;
  event->nodes = stream->after;
  event->stream = nullptr;
  event->passed = nullptr;
  if (stream->capture) return hipSuccess;
  event->stream = stream->self;
  if (event->has_time) {
    event->passed = std::make_shared<std::chrono::steady_clock::time_point>();
    stream->push([passed = event->passed] { *passed = std::chrono::steady_clock::now(); });
  }
  event->after = stream->queued;
  return hipSuccess;
}

namespace {

// Whether the host may ask about an event, or wait for it.
hipError_t may_be_asked(const ShimEvent& event) {
  if (event.capture) {
    event.capture->is_valid = false;
    return hipErrorCapturedEvent;
  }
  return shim::is_forbidden_by_capture() ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

}  // namespace

hipError_t hipEventQuery(hipEvent_t event) {
  const Call call;
  if (call.fails) return error_to_return();
  if (const hipError_t no = may_be_asked(*event); no != hipSuccess) return told(no);
  return event->stream == nullptr || event->stream->run_as_far(event->after) ? hipSuccess : told(hipErrorNotReady);
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  const Call call;
  if (call.fails) return error_to_return();
  if (const hipError_t no = may_be_asked(*event); no != hipSuccess) return told(no);
  if (event->stream != nullptr) event->stream->run_until(event->after);
  return hipSuccess;
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  const Call call;
  if (call.fails) return error_to_return();
  for (const ShimEvent* event : {begin, end}) {
    if (!event->has_time || event->passed == nullptr) return told(hipErrorInvalidValue);
    if (event->stream->done < event->after) return told(hipErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*end->passed - *begin->passed).count();
  return hipSuccess;
}
