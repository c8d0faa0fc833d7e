/* CUDA C++ for a C++ compiler of the CPU: what a kernel finds instead of the CUDA toolkit's headers.

   Only what a thread does is here; when it goes on after a barrier is the runtime's affair (runtime.cpp). What is
   not declared here (inline PTX, tensor memory, clusters, textures) does not compile, and is then not checked. */
#pragma once
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <type_traits>

#include "runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
/* Within templates GCC ignores the section; the linker finds those by the tag, which is a part of their names. */
#define __shared__ static __attribute__((section("tw_shared"), abi_tag("tw_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __CUDA_ALIGN__(bytes) __attribute__((aligned(bytes)))
#define CUDART_INF_F __builtin_huge_valf()
#define CUDART_INF __builtin_huge_val()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#define CUDART_MAX_NORMAL_F FLT_MAX
#define assert(condition) ((void)0)

static const int warpSize = 32;

namespace tw {
template <class T> struct same { using type = T; };
template <class T> using same_t = typename same<T>::type;

template <class To, class From> inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  To to;
  __builtin_memcpy(&to, &value, sizeof to);
  return to;
}
template <class T> inline uint64_t widened(T value) {
  static_assert(sizeof(T) <= 8, "threads of a warp exchange 8 bytes at most");
  uint64_t wide = 0;
  __builtin_memcpy(&wide, &value, sizeof value);
  return wide;
}
template <class T> inline T narrowed(uint64_t wide) {
  T value;
  __builtin_memcpy(&value, &wide, sizeof value);
  return value;
}
/* 0 in headers, whose lines say nothing to whoever wrote the kernel. */
constexpr int line_of_kernel(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __builtin_strcmp(file, "kernel.cu") ? 0 : line;
}
struct configured {  /* <<<grid, block, shared, stream>>> */
  dim3 grid, block;
  size_t shared;
  const void *stream;
  configured(dim3 grid, dim3 block, size_t shared = 0, const void *stream = nullptr) : grid(grid), block(block), shared(shared), stream(stream) {}
};
/* The arguments are evaluated once, on the host; each thread gets copies of their values. */
template <class Kernel, class... Values>
inline void launch(const char *name, const void *function, int line, configured with, Kernel kernel, Values... values) {
  auto body = [&] { kernel(values...); };
  using Body = decltype(body);
  tw_launch(name, function, line, &with.grid, &with.block, with.shared, with.stream, [](void *at) { (*(Body *)at)(); }, &body);
}
}  // namespace tw

/* ---- vector types ---- */

#define TW_VECTOR3(T, name)                                                                            \
  struct name##3 { T x, y, z; };
#define TW_VECTORS(T, name)                                                                            \
  struct name##1 { T x; };                                                                             \
  struct __attribute__((aligned(sizeof(T) * 2))) name##2 { T x, y; };                                  \
  struct __attribute__((aligned(sizeof(T) * 4 < 16 ? sizeof(T) * 4 : 16))) name##4 { T x, y, z, w; };  \
  inline name##1 make_##name##1(T x) { return {x}; }                                                   \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                           \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                   \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TW_VECTOR3(float, float)
TW_VECTOR3(double, double)
TW_VECTOR3(int, int)
TW_VECTOR3(short, short)
TW_VECTOR3(unsigned short, ushort)
TW_VECTOR3(signed char, char)
TW_VECTOR3(unsigned char, uchar)
TW_VECTOR3(long long, longlong)
TW_VECTOR3(unsigned long long, ulonglong)
#undef TW_VECTOR3
TW_VECTORS(unsigned, uint)
TW_VECTORS(float, float)
TW_VECTORS(double, double)
TW_VECTORS(int, int)
TW_VECTORS(short, short)
TW_VECTORS(unsigned short, ushort)
TW_VECTORS(signed char, char)
TW_VECTORS(unsigned char, uchar)
TW_VECTORS(long long, longlong)
TW_VECTORS(unsigned long long, ulonglong)
#undef TW_VECTORS

/* ---- barriers and warps ---- */

inline void __syncthreads(int line = __builtin_LINE()) { tw_barrier(line); }
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) { return tw_barrier_sum(line, predicate != 0); }
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) { return tw_barrier_sum(line, predicate != 0) != 0; }
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) { return tw_barrier_sum(line, !predicate) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) { tw_warp(TW_MEET, mask, 0, 0, line); }
inline void __threadfence() { tw_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { tw_fence(); }
inline unsigned __activemask(int line = __builtin_LINE()) { return tw_active(line); }
inline void __trap(int line = __builtin_LINE()) { tw_trap(line); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return 0; }
inline int clock() { return 0; }
template <class... Values> inline int printf(const char *, Values...) { return 0; }

template <class T> inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = tw_lane(), first = lane & ~(width - 1);
  return tw::narrowed<T>(tw_warp(TW_SHUFFLE, mask, tw::widened(value), first | (source & (width - 1)), line));
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = tw_lane(), first = lane & ~(width - 1);
  return tw::narrowed<T>(tw_warp(TW_SHUFFLE, mask, tw::widened(value), lane >= first + delta ? lane - delta : lane, line));
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = tw_lane(), last = lane | (width - 1);
  return tw::narrowed<T>(tw_warp(TW_SHUFFLE, mask, tw::widened(value), lane + delta <= last ? lane + delta : lane, line));
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, int line = __builtin_LINE()) {
  unsigned lane = tw_lane(), last = lane | (width - 1), source = lane ^ lanes;
  return tw::narrowed<T>(tw_warp(TW_SHUFFLE, mask, tw::widened(value), source <= last ? source : lane, line));
}
inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return (unsigned)tw_warp(TW_BALLOT, mask, predicate != 0, 0, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, predicate, line) != 0; }
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) { return __ballot_sync(mask, !predicate, line) == 0; }
template <class T> inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return (unsigned)tw_warp(TW_MATCH, mask, tw::widened(value), 0, line);
}
template <class T> inline unsigned __match_all_sync(unsigned mask, T value, int *all, int line = __builtin_LINE()) {
  *all = tw_warp(TW_MATCH, mask, tw::widened(value), 0, line) == mask;
  return *all ? mask : 0;
}
#define TW_REDUCE(name, operation)                                                                      \
  template <class T> inline T name(unsigned mask, T value, int line = __builtin_LINE()) {               \
    static_assert(sizeof(T) == 4 && std::is_integral<T>::value, "of whole numbers of 32 bits");         \
    return (T)(uint32_t)tw_warp(operation, mask, (uint32_t)value, 0, line);                             \
  }
TW_REDUCE(__reduce_add_sync, TW_ADD)
TW_REDUCE(__reduce_and_sync, TW_AND)
TW_REDUCE(__reduce_or_sync, TW_OR)
TW_REDUCE(__reduce_xor_sync, TW_XOR)
TW_REDUCE(__reduce_min_sync, std::is_signed<T>::value ? TW_MIN : TW_UMIN)
TW_REDUCE(__reduce_max_sync, std::is_signed<T>::value ? TW_MAX : TW_UMAX)
#undef TW_REDUCE

/* ---- atomics: threads of the CPU change places only where they wait ---- */

#define TW_AT_ONCE template <class T> __attribute__((no_sanitize("thread"))) inline T
#define TW_ATOMIC(name, locks, result)                                                                  \
  TW_AT_ONCE name(T *at, tw::same_t<T> value, int line = __builtin_LINE()) {                            \
    tw_atomic(at, sizeof *at, locks, line);                                                             \
    T old = *at;                                                                                        \
    *at = (result);                                                                                     \
    return old;                                                                                         \
  }                                                                                                     \
  template <class T> inline T name##_block(T *at, tw::same_t<T> value, int line = __builtin_LINE()) {   \
    return name(at, value, line);                                                                       \
  }                                                                                                     \
  template <class T> inline T name##_system(T *at, tw::same_t<T> value, int line = __builtin_LINE()) {  \
    return name(at, value, line);                                                                       \
  }
TW_ATOMIC(atomicAdd, false, T(old + value))
TW_ATOMIC(atomicSub, false, T(old - value))
TW_ATOMIC(atomicExch, true, value)
TW_ATOMIC(atomicMin, false, value < old ? value : old)
TW_ATOMIC(atomicMax, false, old < value ? value : old)
TW_ATOMIC(atomicAnd, false, old & value)
TW_ATOMIC(atomicOr, false, old | value)
TW_ATOMIC(atomicXor, false, old ^ value)
TW_ATOMIC(atomicInc, false, old >= value ? 0 : old + 1)
TW_ATOMIC(atomicDec, false, old == 0 || old > value ? value : old - 1)
#undef TW_ATOMIC
TW_AT_ONCE atomicCAS(T *at, tw::same_t<T> compare, tw::same_t<T> value, int line = __builtin_LINE()) {
  tw_atomic(at, sizeof *at, true, line);
  T old = *at;
  if (old == compare) *at = value;
  return old;
}

/* ---- loads and stores with a hint, and others that are plain here ---- */

template <class T> inline T __ldg(const T *at) { return *at; }
template <class T> inline T __ldca(const T *at) { return *at; }
template <class T> inline T __ldcg(const T *at) { return *at; }
template <class T> inline T __ldcs(const T *at) { return *at; }
template <class T> inline T __ldcv(const T *at) { return *at; }
template <class T> inline T __ldlu(const T *at) { return *at; }
template <class T> inline void __stcg(T *at, tw::same_t<T> value) { *at = value; }
template <class T> inline void __stcs(T *at, tw::same_t<T> value) { *at = value; }
template <class T> inline void __stwb(T *at, tw::same_t<T> value) { *at = value; }
template <class T> inline void __stwt(T *at, tw::same_t<T> value) { *at = value; }
namespace tw {
template <class T> inline void copy_later(void *to, const void *from, size_t zeros) {
  T brought = {}, undefined;
  if (zeros) __builtin_memcpy(&brought, from, sizeof brought - zeros);
  else brought = *(const T *)from;
  __builtin_memset(&undefined, 0xff, sizeof undefined);
  *(T *)to = undefined;
  tw_copy_later(to, &brought, sizeof brought);
}
}  // namespace tw
inline void __pipeline_commit() { tw_end_batch(); }
inline void __pipeline_wait_prior(size_t but) { tw_wait_for_copies(but); }
inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0, int line = __builtin_LINE()) {
  switch (bytes) {
    case 4: return tw::copy_later<int>(to, from, zeros);
    case 8: return tw::copy_later<int2>(to, from, zeros);
    case 16: return tw::copy_later<int4>(to, from, zeros);
    default: tw_trap(line);
  }
}
inline void __builtin_assume_(bool) {}
#define __builtin_assume(condition) __builtin_assume_(condition)

/* ---- arithmetic ---- */

#define TW_LEAST(T)                                                      \
  inline constexpr T min(T a, T b) { return b < a ? b : a; }             \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
TW_LEAST(int)
TW_LEAST(unsigned)
TW_LEAST(long)
TW_LEAST(unsigned long)
TW_LEAST(long long)
TW_LEAST(unsigned long long)
#undef TW_LEAST
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

inline float rsqrtf(float x) { return (float)(1.0 / std::sqrt((double)x)); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }

inline int __float_as_int(float x) { return tw::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return tw::bits<unsigned>(x); }
inline float __int_as_float(int x) { return tw::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return tw::bits<float>(x); }
inline long long __double_as_longlong(double x) { return tw::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return tw::bits<double>(x); }
inline int __float2int_rn(float x) { return (int)std::nearbyint(x); }
inline int __float2int_rz(float x) { return (int)x; }
inline int __float2int_rd(float x) { return (int)std::floor(x); }
inline int __float2int_ru(float x) { return (int)std::ceil(x); }
inline unsigned __float2uint_rn(float x) { return (unsigned)std::nearbyint(x); }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t both = (uint64_t)y << 32 | x;
  unsigned chosen = 0;
  for (int i = 0; i < 4; i++) chosen |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return chosen;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}
#define TW_OF_BYTES(name, part, lanes, bits, expression)                  \
  inline unsigned name(unsigned x, unsigned y) {                          \
    unsigned all = 0;                                                     \
    for (int i = 0; i < lanes; i++) {                                     \
      part a = (part)(x >> bits * i), b = (part)(y >> bits * i);          \
      all |= ((unsigned)(expression) & ((1u << bits) - 1)) << bits * i;   \
    }                                                                     \
    return all;                                                           \
  }
TW_OF_BYTES(__vadd4, uint8_t, 4, 8, a + b)
TW_OF_BYTES(__vsub4, uint8_t, 4, 8, a - b)
TW_OF_BYTES(__vmaxs4, int8_t, 4, 8, a < b ? b : a)
TW_OF_BYTES(__vmaxu4, uint8_t, 4, 8, a < b ? b : a)
TW_OF_BYTES(__vmins4, int8_t, 4, 8, b < a ? b : a)
TW_OF_BYTES(__vminu4, uint8_t, 4, 8, b < a ? b : a)
TW_OF_BYTES(__vabsdiffu4, uint8_t, 4, 8, a < b ? b - a : a - b)
TW_OF_BYTES(__vcmpeq4, uint8_t, 4, 8, a == b ? 255 : 0)
TW_OF_BYTES(__vcmpgtu4, uint8_t, 4, 8, a > b ? 255 : 0)
TW_OF_BYTES(__vadd2, uint16_t, 2, 16, a + b)
TW_OF_BYTES(__vsub2, uint16_t, 2, 16, a - b)
TW_OF_BYTES(__vmaxs2, int16_t, 2, 16, a < b ? b : a)
TW_OF_BYTES(__vmins2, int16_t, 2, 16, b < a ? b : a)
#undef TW_OF_BYTES
inline int __sad(int a, int b, unsigned c) { return c + (a > b ? a - b : b - a); }

/* ---- the launcher's side ---- */

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
};
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
template <class T> inline cudaError_t cudaGetSymbolAddress(void **at, T &symbol) { return *at = (void *)&symbol, cudaSuccess; }
template <class F> inline cudaError_t cudaFuncSetAttribute(F *function, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) tw_allow_shared((const void *)function, value);
  return cudaSuccess;
}
enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMaxSharedMemoryPerBlock = 8, cudaDevAttrWarpSize = 10,
  cudaDevAttrClockRate = 13, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37, cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81, cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int) {
  switch (which) { /* a small device: kernels that size their grid by it run quickly */
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 99 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 100 << 10; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = 4; break;
    case cudaDevAttrClockRate: *value = 1000000; break;
    case cudaDevAttrMemoryClockRate: *value = 1000000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 256; break;
    case cudaDevAttrL2CacheSize: *value = 1 << 14; break;
  }
  return cudaSuccess;
}
struct cudaDeviceProp {
  char name[256] = "";
  size_t totalGlobalMem = 1 << 30, sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 99 << 10, sharedMemPerMultiprocessor = 100 << 10;
  int regsPerBlock = 65536, regsPerMultiprocessor = 65536, warpSize = 32, maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048;
  int maxThreadsDim[3] = {1024, 1024, 64}, maxGridSize[3] = {2147483647, 65535, 65535};
  int major = 8, minor = 0, multiProcessorCount = 4, l2CacheSize = 1 << 14, memoryBusWidth = 256;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *found, int) { return *found = {}, cudaSuccess; }
template <class F>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, F, int, size_t) { return *blocks = 2, cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
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
