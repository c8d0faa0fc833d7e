/* CUDA C++ for a C++ compiler of the CPU: what a kernel finds instead of the CUDA toolkit's headers.

   Only what a thread does is here; when it goes on after a barrier is the runtime's affair (runtime.cpp). What is
   not declared here (inline PTX, tensor memory, clusters, textures) does not compile, and is then not checked. */
#pragma once
// Since C++17, <cmath> of GCC's library contains functions like std::beta, which do not exist in CUDA. Without
// them, it takes a third of the time to compile, and it is most of what is compiled for a kernel.
#if __has_include(<bits/c++config.h>)
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#define _GLIBCXX_USE_STD_SPEC_FUNCS 0
#endif
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include "runtime.h"

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
/* Within templates GCC ignores the section; the linker finds those by the tag, which is a part of their names. */
#define __shared__ static __attribute__((section("tw_shared"), abi_tag("tw_shared")))
#define __forceinline__ inline /* GCC refuses pointers to functions that it must always inline */
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
template <class Result, class... Types> inline const void *address_of(Result (*kernel)(Types...)) { return (const void *)kernel; }
#define tw_given(at) tw_address(at) /* nvcc's program has no tw_address (launcher.py) */
/* A launch's argument. The results of tw_address are addresses, for the examination of the program's code. */
template <class T> inline const T &passed(const T &value) { return value; }
template <class T> inline T *passed(T *const &value) { return (T *)tw_address((const volatile void *)value); }

/* The arguments are evaluated once, on the host; each thread gets copies of their values. */
template <class Kernel, class... Values>
inline void launch(const char *name, const void *function, int line, configured with, Kernel kernel, Values... values) {
  auto body = [&] { kernel(passed(values)...); };
  using Body = decltype(body);
  tw_launch(name, function, line, &with.grid, &with.block, with.shared, with.stream, [](void *at) { (*(Body *)at)(); }, &body);
}
}  // namespace tw

#include "arithmetic.h"

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
TW_ATOMIC(atomicInc, false, tw::chosen(old < value, T(old + 1), T(0)))
TW_ATOMIC(atomicDec, false, tw::chosen((old == 0) | (old > value), T(value), T(old - 1)))
#undef TW_ATOMIC
TW_AT_ONCE atomicCAS(T *at, tw::same_t<T> compare, tw::same_t<T> value, int line = __builtin_LINE()) {
  tw_atomic(at, sizeof *at, true, line);
  T old = *at;
  *at = tw::chosen(old == compare, value, old);
  return old;
}
/* Each part of a vector is changed at once, the whole is not. */
__forceinline__ float2 atomicAdd(float2 *at, float2 value, int line = __builtin_LINE()) {
  return {atomicAdd(&at->x, value.x, line), atomicAdd(&at->y, value.y, line)};
}
__forceinline__ float4 atomicAdd(float4 *at, float4 value, int line = __builtin_LINE()) {
  return {atomicAdd(&at->x, value.x, line), atomicAdd(&at->y, value.y, line), atomicAdd(&at->z, value.z, line), atomicAdd(&at->w, value.w, line)};
}

/* ---- loads and stores with a hint, and others that are plain here ---- */

template <class T> inline T __ldg(const T *at, int line = __builtin_LINE()) {
#ifdef __SANITIZE_THREAD__
  tw_read_only(at, sizeof *at, line);
#endif
  return *at;
}
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
template <class T> __forceinline__ void copy_later(void *to, const void *from, size_t zeros) {
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
__forceinline__ void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0, int line = __builtin_LINE()) {
  switch (bytes) {
    case 4: return tw::copy_later<int>(to, from, zeros);
    case 8: return tw::copy_later<int2>(to, from, zeros);
    case 16: return tw::copy_later<int4>(to, from, zeros);
    default: tw_trap(line);
  }
}
/* nvcc relies on what these promise, so what a kernel does on a GPU is not known if it does not hold. */
namespace tw {
inline void promised(bool holds, int line) {
  if (!holds) tw_false_promise(line);
}
template <class T> inline T *aligned(T *at, int line, size_t to, size_t off = 0) {
  promised((uintptr_t)at % to == off, line);
  return at;
}
}  // namespace tw
#define __builtin_assume(condition) tw::promised((condition), __LINE__)
#define __builtin_assume_aligned(at, ...) tw::aligned(at, __LINE__, __VA_ARGS__)

#include "launcher.h"
