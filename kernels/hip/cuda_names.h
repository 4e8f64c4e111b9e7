// HIP's names for what CUDA's runtime has, as far as we use them. ROCm's own headers for NVIDIA do not compile with CUDA 13.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

using hipError_t = cudaError_t;
using hipStream_t = cudaStream_t;
using hipEvent_t = cudaEvent_t;
using hipDeviceProp_t = cudaDeviceProp;
using hipGraph_t = cudaGraph_t;
using hipGraphExec_t = cudaGraphExec_t;
inline constexpr cudaStreamCaptureMode hipStreamCaptureModeThreadLocal = cudaStreamCaptureModeThreadLocal;
inline constexpr hipError_t hipSuccess = cudaSuccess, hipErrorOutOfMemory = cudaErrorMemoryAllocation,
                            hipErrorNoDevice = cudaErrorNoDevice, hipErrorInsufficientDriver = cudaErrorInsufficientDriver,
                            hipErrorInvalidDevice = cudaErrorInvalidDevice,
                            hipErrorNotInitialized = cudaErrorInitializationError, hipErrorNotReady = cudaErrorNotReady;
inline constexpr unsigned hipStreamNonBlocking = cudaStreamNonBlocking, hipEventDisableTiming = cudaEventDisableTiming,
                          hipEventDefault = cudaEventDefault, hipHostMallocDefault = cudaHostAllocDefault;
inline constexpr cudaMemcpyKind hipMemcpyHostToDevice = cudaMemcpyHostToDevice, hipMemcpyDeviceToHost = cudaMemcpyDeviceToHost,
                                hipMemcpyDeviceToDevice = cudaMemcpyDeviceToDevice;

inline const char* hipGetErrorString(hipError_t error) {
  return cudaGetErrorString(error);
}
inline hipError_t hipGetLastError() {
  return cudaGetLastError();
}
inline hipError_t hipGetDeviceCount(int* count) {
  return cudaGetDeviceCount(count);
}
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
inline hipError_t hipSetDevice(int device) {
  return cudaSetDevice(device);
}
inline hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return cudaMemGetInfo(free, total);
}
inline hipError_t hipMalloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes);
}
inline hipError_t hipFree(void* memory) {
  return cudaFree(memory);
}
inline hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned flags) {
  return cudaHostAlloc(memory, bytes, flags);
}
inline hipError_t hipHostFree(void* memory) {
  return cudaFreeHost(memory);
}
inline hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, hipStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, kind, stream);
}
inline hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream) {
  return cudaMemsetAsync(memory, value, bytes, stream);
}
inline hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cudaDeviceGetStreamPriorityRange(least, greatest);
}
inline hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  return cudaStreamCreateWithPriority(stream, flags, priority);
}
inline hipError_t hipStreamDestroy(hipStream_t stream) {
  return cudaStreamDestroy(stream);
}
inline hipError_t hipStreamSynchronize(hipStream_t stream) {
  return cudaStreamSynchronize(stream);
}
inline hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return cudaStreamWaitEvent(stream, event, flags);
}
inline hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return cudaEventCreateWithFlags(event, flags);
}
inline hipError_t hipEventDestroy(hipEvent_t event) {
  return cudaEventDestroy(event);
}
inline hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return cudaEventRecord(event, stream);
}
inline hipError_t hipEventQuery(hipEvent_t event) {
  return cudaEventQuery(event);
}
inline hipError_t hipEventSynchronize(hipEvent_t event) {
  return cudaEventSynchronize(event);
}
inline hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  return cudaEventElapsedTime(milliseconds, begin, end);
}
inline hipError_t hipStreamBeginCapture(hipStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(stream, mode);
}
inline hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  return cudaStreamEndCapture(stream, graph);
}
inline hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(executable, graph, flags);
}
inline hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  return cudaGraphLaunch(executable, stream);
}
inline hipError_t hipGraphDestroy(hipGraph_t graph) {
  return cudaGraphDestroy(graph);
}
inline hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  return cudaGraphExecDestroy(executable);
}
