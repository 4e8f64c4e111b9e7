// The runtime's functions for captures and graphs. While a stream is captured nothing that is put into it is done: it is
// recorded with the arguments that it has then, and done each time the graph is launched. Calls that the real runtime forbids
// meanwhile are refused here, too, and make the capture invalid.
#include <algorithm>
#include <memory>
#include <utility>

#include "tests/kernels/shim/runtime.h"
#include "tests/kernels/shim/streams.h"

struct ShimGraphHandle {
  std::shared_ptr<const ShimGraph> graph;
};

namespace {

using shim::Call;
using shim::error_to_return;
using shim::told;

std::vector<std::shared_ptr<ShimCapture>> captures;  // the ones under way
int64_t launched = 0;
bool refuses = false;

// Whether everything that is recorded comes before what the origin would record next.
bool is_joined(const ShimCapture& capture) {
  const auto& nodes = capture.graph->nodes;
  std::vector<char> before(nodes.size());
  std::vector<size_t> next = capture.origin->after;
  while (!next.empty()) {
    const size_t number = next.back();
    next.pop_back();
    if (std::exchange(before[number], 1) == 1) continue;
    next.insert(next.end(), nodes[number].after.begin(), nodes[number].after.end());
  }
  return std::ranges::count(before, 1) == std::ssize(before);
}

}  // namespace

void ShimGraph::run() const {
  std::vector<std::vector<size_t>> later(nodes.size());
  std::vector<size_t> missing(nodes.size()), ready;
  for (size_t number = 0; number < nodes.size(); ++number) {
    missing[number] = nodes[number].after.size();
    for (const size_t other : nodes[number].after) later[other].push_back(number);
    if (missing[number] == 0) ready.push_back(number);
  }
  // Runs of one stream's nodes, or of all that can be done of it before anything else.
  const bool has_favourite = shim::random_below(2) == 0;
  const ShimStream* of = nodes.empty() ? nullptr : nodes[shim::random_below(nodes.size())].of;
  uint64_t left = 0;
  while (!ready.empty()) {
    if (!has_favourite && left == 0) {
      of = nodes[ready[shim::random_below(ready.size())]].of;
      left = uint64_t{1} << shim::random_below(4);
    }
    auto at = std::ranges::find_if(ready, [&](size_t number) { return nodes[number].of == of; });
    if (at == ready.end()) at = ready.begin();
    left -= left > 0 ? 1 : 0;
    const size_t number = *at;
    ready.erase(at);
    nodes[number].work();
    for (const size_t other : later[number]) {
      if (--missing[other] == 0) ready.push_back(other);
    }
  }
}

namespace shim {

bool is_forbidden_by_capture() {
  bool forbidden = false;
  for (const auto& capture : captures) {
    if (capture->mode == hipStreamCaptureModeRelaxed) continue;
    if (capture->mode == hipStreamCaptureModeThreadLocal && capture->thread != std::this_thread::get_id()) continue;
    capture->is_valid = false;
    forbidden = true;
  }
  return forbidden;
}
int64_t graphs_launched() {
  return launched;
}
void refuse_captures(bool on) {
  refuses = on;
}

}  // namespace shim

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  const Call call;
  if (call.fails) return error_to_return();
  if (refuses) return told(hipErrorStreamCaptureUnsupported);
  if (stream->capture) return told(hipErrorInvalidValue);
  stream->capture = std::make_shared<ShimCapture>(ShimCapture{.origin = stream, .mode = mode, .streams = {stream}});
  captures.push_back(stream->capture);
  return hipSuccess;
}
// Ends the capture also where it fails, but for a call that a test lets fail: the runtime is to be asked again then.
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  *graph = nullptr;
  const Call call;
  if (call.fails) return error_to_return();
  const std::shared_ptr<ShimCapture> capture = stream->capture;
  if (!capture || capture->origin != stream) return told(hipErrorStreamCaptureUnmatched);
  if (capture->mode != hipStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return told(hipErrorStreamCaptureWrongThread);
  const bool joined = is_joined(*capture);
  capture->is_over = true;
  std::erase(captures, capture);
  for (ShimStream* each : capture->streams) {
    each->capture = nullptr;
    each->after.clear();
  }
  if (!capture->is_valid) return told(hipErrorStreamCaptureInvalidated);
  if (!joined) return told(hipErrorStreamCaptureUnjoined);
  *graph = new ShimGraphHandle{capture->graph};
  return hipSuccess;
}
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph, unsigned long long) {
  const Call call;
  if (call.fails) return error_to_return();
  *executable = new ShimGraphHandle(*graph);
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  const Call call;
  if (call.fails) return error_to_return();
  if (stream->capture) {
    stream->capture->is_valid = false;
    return told(hipErrorStreamCaptureUnsupported);
  }
  ++launched;
  stream->push([graph = executable->graph] { graph->run(); });
  return hipSuccess;
}
// Memory is given back also by a call that a test lets fail: the error then is an earlier one's, and nobody asks a second time.
hipError_t hipGraphDestroy(hipGraph_t graph) {
  const Call call;
  delete graph;
  return call.fails ? error_to_return() : hipSuccess;
}
hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  const Call call;
  delete executable;
  return call.fails ? error_to_return() : hipSuccess;
}
