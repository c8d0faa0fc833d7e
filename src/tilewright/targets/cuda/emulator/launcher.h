/* What the host code of a kernel may call: memory, launches, streams, events, and questions about the device. */
#pragma once

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
enum cudaFuncCache { cudaFuncCachePreferNone, cudaFuncCachePreferShared, cudaFuncCachePreferL1, cudaFuncCachePreferEqual };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum { cudaStreamDefault, cudaStreamNonBlocking, cudaEventDisableTiming };
struct CUstream_st;
struct CUevent_st;
typedef CUstream_st *cudaStream_t;
typedef CUevent_st *cudaEvent_t;
template <class T> inline cudaError_t cudaMalloc(T **at, size_t bytes) {
  *at = (T *)tw_allocate(bytes);
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
template <class T> inline cudaError_t cudaMallocAsync(T **at, size_t bytes, cudaStream_t) { return cudaMalloc(at, bytes); }
inline cudaError_t cudaFree(void *memory) { return tw_host_waits_for_all(), tw_release(memory), cudaSuccess; }
inline cudaError_t cudaFreeAsync(void *memory, cudaStream_t) { return tw_release(memory), cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream = 0, int line = tw::line_of_kernel()) {
  return tw_copy(to, from, bytes, stream, line), cudaSuccess;
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, int line = tw::line_of_kernel()) {
  return cudaMemcpyAsync(to, from, bytes, kind, 0, line);
}
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = 0, int line = tw::line_of_kernel()) {
  return tw_fill(to, value, bytes, stream, line), cudaSuccess;
}
inline cudaError_t cudaMemset(void *to, int value, size_t bytes, int line = tw::line_of_kernel()) {
  return cudaMemsetAsync(to, value, bytes, 0, line);
}
inline cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows,
                                     cudaMemcpyKind, cudaStream_t stream = 0, int line = tw::line_of_kernel()) {
  for (size_t row = 0; row < rows; row++) tw_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, bytes, stream, line);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows,
                                cudaMemcpyKind kind, int line = tw::line_of_kernel()) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, kind, 0, line);
}
inline cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t bytes, size_t rows, cudaStream_t stream = 0,
                                     int line = tw::line_of_kernel()) {
  for (size_t row = 0; row < rows; row++) tw_fill((char *)to + row * pitch, value, bytes, stream, line);
  return cudaSuccess;
}
template <class T>
inline cudaError_t cudaMemcpyToSymbolAsync(T &to, const void *from, size_t bytes, size_t offset, cudaMemcpyKind,
                                           cudaStream_t stream = 0, int line = tw::line_of_kernel()) {
  return tw_copy((char *)&to + offset, from, bytes, stream, line), cudaSuccess;
}
template <class T>
inline cudaError_t cudaMemcpyToSymbol(T &to, const void *from, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice, int line = tw::line_of_kernel()) {
  return cudaMemcpyToSymbolAsync(to, from, bytes, offset, kind, 0, line);
}
template <class T>
inline cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &from, size_t bytes, size_t offset, cudaMemcpyKind,
                                             cudaStream_t stream = 0, int line = tw::line_of_kernel()) {
  return tw_copy(to, (const char *)&from + offset, bytes, stream, line), cudaSuccess;
}
template <class T> inline cudaError_t cudaGetSymbolAddress(void **at, T &symbol) { return *at = (void *)&symbol, cudaSuccess; }
template <class F> inline cudaError_t cudaFuncSetAttribute(F *function, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) tw_allow_shared((const void *)function, value);
  return cudaSuccess;
}
template <class F> inline cudaError_t cudaFuncSetCacheConfig(F *, cudaFuncCache) { return cudaSuccess; }
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10,
  cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrMaxRegistersPerBlock = 12, cudaDevAttrGlobalMemoryBusWidth = 37, cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
struct cudaDeviceProp {
  char name[256] = "";
  size_t totalGlobalMem = 1 << 30, sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 99 << 10, sharedMemPerMultiprocessor = 100 << 10;
  int regsPerBlock = 65536, regsPerMultiprocessor = 65536, warpSize = 32, maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048;
  int maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {2147483647, 65535, 65535};
  int major = 8, minor = 0, multiProcessorCount = 4, l2CacheSize = 1 << 14, memoryBusWidth = 256;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *found, int) {
  *found = {};
  const tw_device &device = *tw_the_device();
  for (size_t i = 0; i + 1 < sizeof found->name && device.name[i]; i++) found->name[i] = device.name[i];
  found->totalGlobalMem = (size_t)device.memory_kib << 10;
  found->sharedMemPerBlockOptin = device.shared_kib << 10;
  found->sharedMemPerMultiprocessor = (device.shared_kib + 1) << 10;
  found->major = device.major, found->minor = device.minor;
  found->multiProcessorCount = device.multiprocessors;
  found->l2CacheSize = device.cache_kib << 10;
  found->memoryBusWidth = device.bus_bits;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int device) {
  cudaDeviceProp found;
  cudaGetDeviceProperties(&found, device);
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: *value = found.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = (int)found.sharedMemPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = (int)found.sharedMemPerBlockOptin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = (int)found.sharedMemPerMultiprocessor; break;
    case cudaDevAttrWarpSize: *value = found.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = found.multiProcessorCount; break;
    case cudaDevAttrClockRate: *value = tw_the_device()->clock_khz; break;
    case cudaDevAttrMemoryClockRate: *value = tw_the_device()->memory_clock_khz; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = found.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *value = found.l2CacheSize; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = found.regsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = found.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = found.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = found.minor; break;
  }
  return cudaSuccess;
}
template <class F>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F, int threads, size_t) {
  int fit = threads > 0 ? 2048 / threads : 0;
  if (fit > 32) fit = 32;
  return *blocks = fit ? 1 + tw_the_device()->random % fit : 0, cudaSuccess;
}
template <class F>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, F, size_t = 0, int limit = 0) {
  *grid = 2 * tw_the_device()->multiprocessors;
  *block = limit && limit < 256 ? limit : 256;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline const char *cudaGetErrorName(cudaError_t) { return ""; }
inline const char *cudaGetErrorString(cudaError_t) { return ""; }
inline cudaError_t cudaDeviceSynchronize() { return tw_host_waits_for_all(), cudaSuccess; }
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  *stream = (cudaStream_t)tw_stream(flags == cudaStreamNonBlocking);
  return *stream ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return tw_host_waits(stream, nullptr), cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  return tw_wait(stream, event), cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = (cudaEvent_t)tw_event();
  return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0) { return tw_record(event, stream), cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) { return tw_host_waits(0, event), cudaSuccess; }
/* The parameters' types are those of the function, so it may not have been cast (launches.py removes casts). */
namespace tw {
template <class... Types, size_t... Which>
inline void launch_pointers(void (*function)(Types...), configured with, void **values, int line, std::index_sequence<Which...>) {
  launch("", (const void *)function, line, with, [=](auto... given) { function(given...); }, *(std::remove_reference_t<Types> *)values[Which]...);
}
}  // namespace tw
template <class... Types>
inline cudaError_t cudaLaunchKernel(void (*function)(Types...), dim3 grid, dim3 block, void **values, size_t shared = 0,
                                    cudaStream_t stream = 0, int line = __builtin_LINE()) {
  tw::launch_pointers(function, {grid, block, shared, stream}, values, line, std::index_sequence_for<Types...>());
  return cudaSuccess;
}
