// Stands in for ROCm's header of this name where kernels run on the CPU: rung 3 of the ladder. Proves logic, not hardware.
//
// A thread of a block is a fiber (Boost.Context). Blocks run one after the other in a shuffled order, and so do lanes, so that
// no kernel relies on an order that GPUs do not promise. If not all threads come to a barrier or an exchange, the test ends
// with a message. The memory of the device and of a block is from the heap, has exactly the size that was asked for, and is
// filled with noise: sanitizers notice an access beyond it. Streams are queues: their work is done when the host waits for it
// or asks about it, and not before, so a copy for which nobody waited has not happened; streams take turns in shuffled orders,
// which heed events and nothing else (streams.h). A capture records what is put into its
// streams, and does nothing of it (graphs.cpp). Thread: any; kernels run one at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#define HOLDFAST_HIP_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
template <typename Type>
using ShimPlain = Type;
#define HOLDFAST_SHARED(Type, name) \
  ShimPlain<Type>& name = *static_cast<ShimPlain<Type>*>(shim::shared(__FILE__, __LINE__, sizeof(ShimPlain<Type>)))

namespace shim {

struct Index {
  unsigned x;
};
struct Thread {
  Index thread, block, threads, blocks;
};
const Thread& current();  // the thread whose fiber runs

// Like the kernels' from_lane among 32 lanes, and like __syncthreads for the whole block.
float from_lane(float value, int source);
float from_lane_of_wave(float value, int source, int wave);  // likewise, among the lanes of a wave
void barrier();
void* shared(const char* file, int line, size_t bytes);

float widen_half(uint16_t bits);
uint16_t narrow_half(float value);

// The values that the lanes of a wave of 32 or 64 pass, by lane. Every lane calls it, and then calls wait_for_wave before it
// changes its value.
std::vector<const void*> registers_of_wave(const void* own, int wave);
void wait_for_wave(int wave);

// The matrix units' instructions (kernels/hip/matrix_units.h). Arguments are a lane's registers; every lane of the wave calls.
void wmma12(bool is_bfloat16, const void* a, const void* b, void* c);
void wmma11(bool is_bfloat16, const void* a, const void* b, void* c);
void mfma(bool is_bfloat16, const void* a, const void* b, void* c);
void mma16816(bool is_bfloat16, const void* a, const void* b, void* c);
void ldmatrix(bool transposed, const void* own_row, void* x);

[[noreturn]] void give_up(const std::string& what);

// Runs `body` in every thread of every block.
void run_blocks(unsigned blocks, unsigned threads, const std::function<void()>& body);

// --- settings of tests

void set_wave(int lanes);  // hipDeviceProp_t::warpSize: 32 or 64
void shuffle_with(uint64_t seed);
// The n-th call from now on of a function that returns an error does nothing and returns this error. 0: no call.
void fail_call(int64_t n, int error);
int64_t calls_so_far();
size_t bytes_on_device();
// The n-th hipStreamWaitEvent from now on does nothing, as if the code had none there. 0: no call.
void leave_out_wait(int64_t n);
int64_t waits_so_far();
int64_t graphs_launched();
void refuse_captures(bool on);  // as a runtime that has none
// The file in the place of a driver's in /dev: HOLDFAST_SHIM_DRIVER names it; without that one that is not there.
std::string driver_file();

}  // namespace shim

#define threadIdx (shim::current().thread)
#define blockIdx (shim::current().block)
#define blockDim (shim::current().threads)
#define gridDim (shim::current().blocks)
#define __syncthreads shim::barrier

enum hipError_t : int {
  hipSuccess = 0,
  hipErrorInvalidValue = 1,
  hipErrorOutOfMemory = 2,
  hipErrorNotInitialized = 3,
  hipErrorInsufficientDriver = 35,
  hipErrorNoDevice = 100,
  hipErrorInvalidDevice = 101,
  hipErrorNotReady = 600,
  hipErrorIllegalAddress = 700,
  hipErrorLaunchFailure = 719,
  hipErrorStreamCaptureUnsupported = 900,
  hipErrorStreamCaptureInvalidated = 901,
  hipErrorStreamCaptureUnmatched = 903,
  hipErrorStreamCaptureUnjoined = 904,
  hipErrorStreamCaptureIsolation = 905,
  hipErrorCapturedEvent = 907,
  hipErrorStreamCaptureWrongThread = 908,
};
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2, hipMemcpyDeviceToDevice = 3 };
enum hipStreamCaptureMode {
  hipStreamCaptureModeGlobal = 0,
  hipStreamCaptureModeThreadLocal = 1,
  hipStreamCaptureModeRelaxed = 2,
};
struct ShimStream;
struct ShimEvent;
struct ShimGraphHandle;
using hipStream_t = ShimStream*;
using hipEvent_t = ShimEvent*;
using hipGraph_t = ShimGraphHandle*;
using hipGraphExec_t = ShimGraphHandle*;
inline constexpr unsigned hipStreamNonBlocking = 1, hipEventDisableTiming = 2, hipEventDefault = 0, hipHostMallocDefault = 0;

struct hipDeviceProp_t {
  char name[256];
  size_t totalGlobalMem;
  int warpSize;
  int multiProcessorCount;
  int integrated;
  char gcnArchName[256];
  int pciDomainID, pciBusID, pciDeviceID;
};

const char* hipGetErrorString(hipError_t error);
hipError_t hipGetLastError();
hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device);
hipError_t hipSetDevice(int device);
hipError_t hipMemGetInfo(size_t* free, size_t* total);
hipError_t hipMalloc(void** memory, size_t bytes);
hipError_t hipFree(void* memory);
hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned flags);
hipError_t hipHostFree(void* memory);
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream);
hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest);
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph, unsigned long long flags);
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipGraphExecDestroy(hipGraphExec_t executable);

namespace shim {
// A kernel's launch: put into the stream's queue.
hipError_t launch(unsigned blocks, unsigned threads, hipStream_t stream, std::function<void()> body);
// Work that may wait for something else: it is called again and again, until it says that it is done.
void put(hipStream_t stream, std::function<bool()> work);
}  // namespace shim
