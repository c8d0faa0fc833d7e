/* `nvcuda::wmma`: products of small matrices that a warp computes together.

   Each thread of the warp holds as many elements of a fragment as on a GPU, so that types have the same sizes. Which
   elements these are is not specified by CUDA, and differs from call to call here (tw_scattered). Of half matrices, some
   elements are held by several threads. The first thread of the warp multiplies for all of them. The threads wait until
   all of them have loaded a matrix or multiplied, but not until they have stored one: CUDA orders a store before what
   other threads of the warp read only by __syncwarp(). */
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }
template <class T> struct stored { using type = T; };
template <> struct stored<precision::tf32> { using type = float; };

template <class Use, int M, int N, int K, class T, class Layout = void> struct __attribute__((aligned(8))) fragment {
  static constexpr int tw_rows = std::is_same<Use, matrix_b>::value ? K : M;
  static constexpr int tw_columns = std::is_same<Use, matrix_a>::value ? K : N;
  static constexpr bool tw_is_factor = !std::is_same<Use, accumulator>::value;
  enum { num_elements = tw_is_factor && std::is_same<T, half>::value ? 16 : tw_rows * tw_columns / 32 };
  enum { num_storage_elements = num_elements };
  using element_type = T;
  using storage_element_type = typename stored<T>::type;
  storage_element_type x[num_elements];
};
inline void tw_meet(int line) { tw_warp(TW_MEET, 0xffffffffu, 0, 0, line); }
inline float __float_to_tf32(float value) {
  unsigned wide = tw::bits<unsigned>(value);
  return tw::bits<float>((wide + 0x1000) & ~0x1fffu);
}
/* Where the element of a thread is in the matrix, in the order of its rows. */
template <class F> inline int tw_place(int element, int lane) {
  return (element * 32 + (lane ^ tw_scattered())) % (F::tw_rows * F::tw_columns);
}
template <class F, class T> inline void fill_fragment(F &f, T value) {
  for (auto &element : f.x) element = value;
}
/* In a listing, gcc must not compute addresses of fragments from those of arrays. Elsewhere, a fault has the line of the
   kernel that calls the function. */
#ifdef TW_LISTED
#define TW_APART __attribute__((noinline))
#else
#define TW_APART inline
#endif
template <class F, class S> TW_APART void tw_load(F &f, const S *from, unsigned stride, bool by_columns, int line) {
  tw_meet(line);
  for (int e = 0; e < F::num_elements; e++) {
    int at = tw_place<F>(e, tw_lane()), r = at / F::tw_columns, c = at % F::tw_columns;
    f.x[e] = by_columns ? from[c * stride + r] : from[r * stride + c];
  }
  tw_meet(line);
}
template <class Use, int M, int N, int K, class T, class Layout, class S>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const S *from, unsigned stride, int line = __builtin_LINE()) {
  tw_load(f, from, stride, std::is_same<Layout, col_major>::value, line);
}
template <int M, int N, int K, class T, class S>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const S *from, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  tw_load(f, from, stride, layout == mem_col_major, line);
}
template <int M, int N, int K, class T, class S>
TW_APART void store_matrix_sync(S *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  using F = fragment<accumulator, M, N, K, T>;
  tw_meet(line);
  for (int e = 0; e < F::num_elements; e++) {
    int at = tw_place<F>(e, tw_lane()), r = at / N, c = at % N;
    (layout == mem_col_major ? to[c * stride + r] : to[r * stride + c]) = f.x[e];
  }
}
/* The threads are at the same call, so that their fragments are there. They are announced to nobody who looks for races:
   the elements of other threads are local variables of these. */
template <class F>
__attribute__((no_sanitize("thread"), noinline)) void tw_gather(typename F::storage_element_type *whole, int number) {
  for (int lane = 0; lane < 32; lane++) {
    const F &held = *(const F *)tw_lent(lane, number);
    for (int e = 0; e < F::num_elements; e++) __builtin_memcpy(&whole[tw_place<F>(e, lane)], &held.x[e], sizeof *whole);
  }
}
template <class F>
__attribute__((no_sanitize("thread"), noinline)) void tw_scatter(const typename F::storage_element_type *whole, int number) {
  for (int lane = 0; lane < 32; lane++) {
    F &held = *(F *)tw_lent(lane, number);
    for (int e = 0; e < F::num_elements; e++) __builtin_memcpy(&held.x[e], &whole[tw_place<F>(e, lane)], sizeof *whole);
  }
}
template <class T> struct tw_summed { using type = float; };
template <> struct tw_summed<int> { using type = int; };
template <> struct tw_summed<double> { using type = double; };
template <int M, int N, int K, class D, class A, class LA, class B, class LB, class C>
inline void mma_sync(fragment<accumulator, M, N, K, D> &d, const fragment<matrix_a, M, N, K, A, LA> &a,
                     const fragment<matrix_b, M, N, K, B, LB> &b, const fragment<accumulator, M, N, K, C> &c,
                     int line = __builtin_LINE()) {
  constexpr bool tf32 = std::is_same<A, precision::tf32>::value;
  using Sum = typename tw_summed<D>::type;
  tw_lend(&d, &a, &b, &c);
  tw_meet(line);
  if (tw_lane() == 0) {
    typename stored<A>::type left[M * K];
    typename stored<B>::type right[K * N];
    C before[M * N];
    D after[M * N];
    tw_gather<fragment<matrix_a, M, N, K, A, LA>>(left, 1);
    tw_gather<fragment<matrix_b, M, N, K, B, LB>>(right, 2);
    tw_gather<fragment<accumulator, M, N, K, C>>(before, 3);
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        Sum sum = (Sum)before[m * N + n];
        for (int k = 0; k < K; k++) {
          Sum one = (Sum)left[m * K + k], other = (Sum)right[k * N + n];
          sum += tf32 ? __float_to_tf32(one) * __float_to_tf32(other) : one * other;
        }
        after[m * N + n] = sum;
      }
    tw_scatter<fragment<accumulator, M, N, K, D>>(after, 0);
  }
  tw_meet(line);
}
}  // namespace wmma
}  // namespace nvcuda
