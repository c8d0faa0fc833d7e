/* `nvcuda::wmma`: products of small matrices that a warp computes together.

   Each thread holds as many elements of a fragment as on a GPU. Which of them is not specified by CUDA; here it holds
   consecutive ones. The first thread of the warp computes for all, once the others have told it where their fragments
   are. They wait until it has loaded a matrix or multiplied, but not until a matrix is stored: CUDA orders a store before
   what other threads of the warp read only by __syncwarp(). */
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

/* Of half, both factors have 16 elements in each thread, so that some elements are held several times. */
template <class Use, int M, int N, int K, class T, class Layout = void> struct __attribute__((aligned(8))) fragment {
  static constexpr int rows = std::is_same<Use, matrix_b>::value ? K : M;
  static constexpr int columns = std::is_same<Use, matrix_a>::value ? K : N;
  static constexpr int different = rows * columns / 32;
  enum { num_elements = std::is_same<T, __half>::value && !std::is_same<Use, accumulator>::value ? 16 : different };
  enum { num_storage_elements = num_elements };
  using element_type = T;
  using storage_element_type = typename stored<T>::type;
  storage_element_type x[num_elements];
};
template <class F> inline auto &element(F **of_lanes, int row, int column) {
  int at = row * F::columns + column;
  return of_lanes[at / F::different]->x[at % F::different];
}
template <class F> inline void set(F **of_lanes, int row, int column, typename F::storage_element_type value) {
  for (int copy = 0; copy < F::num_elements; copy += F::different) (&element(of_lanes, row, column))[copy] = value;
}
/* Where each thread of the warp has its fragments: what all pass as `own`. True for the thread that computes. */
template <class T> inline bool first_thread(T *own, T *(&of_lanes)[32], int line) {
  tw_warp(TW_MEET, 0xffffffffu, (uint64_t)(uintptr_t)own, 0, line);
  if (tw_lane()) return false;
  for (unsigned l = 0; l < 32; l++) of_lanes[l] = (T *)(uintptr_t)tw_given_by(l);
  return true;
}
inline void after(const void *own, int line) { tw_warp(TW_MEET, 0xffffffffu, (uint64_t)(uintptr_t)own, 0, line); }
inline float __float_to_tf32(float value) {
  unsigned wide = tw::bits<unsigned>(value);
  return tw::bits<float>((wide + 0x1000) & ~0x1fffu);
}
template <class F, class T> inline void fill_fragment(F &f, T value) {
  for (auto &element : f.x) element = value;
}
template <class F, class S> inline void load(F &f, const S *from, unsigned stride, bool by_columns, int line) {
  F *of_lanes[32];
  if (first_thread(&f, of_lanes, line))
    for (int r = 0; r < F::rows; r++)
      for (int c = 0; c < F::columns; c++)
        set(of_lanes, r, c, by_columns ? from[c * stride + r] : from[r * stride + c]);
  after(&f, line);
}
template <class Use, int M, int N, int K, class T, class Layout, class S>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const S *from, unsigned stride, int line = __builtin_LINE()) {
  load(f, from, stride, std::is_same<Layout, col_major>::value, line);
}
template <int M, int N, int K, class T, class S>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const S *from, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  load(f, from, stride, layout == mem_col_major, line);
}
template <int M, int N, int K, class T, class S>
inline void store_matrix_sync(S *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  after(&f, line);
  for (int e = 0; e < f.num_elements; e++) {
    int at = tw_lane() * f.num_elements + e, r = at / N, c = at % N;
    (layout == mem_col_major ? to[c * stride + r] : to[r * stride + c]) = f.x[e];
  }
}
template <int M, int N, int K, class D, class A, class LA, class B, class LB, class C>
inline void mma_sync(fragment<accumulator, M, N, K, D> &d, const fragment<matrix_a, M, N, K, A, LA> &a,
                     const fragment<matrix_b, M, N, K, B, LB> &b, const fragment<accumulator, M, N, K, C> &c,
                     int line = __builtin_LINE()) {
  constexpr bool tf32 = std::is_same<A, precision::tf32>::value;
  struct Places {
    decltype(&d) to;
    decltype(&a) left;
    decltype(&b) right;
    decltype(&c) sum;
  } own = {&d, &a, &b, &c}, *places[32];
  if (first_thread(&own, places, line)) {
    decltype(&d) to[32];
    decltype(&a) left[32];
    decltype(&b) right[32];
    decltype(&c) sums[32];
    for (int l = 0; l < 32; l++) to[l] = places[l]->to, left[l] = places[l]->left, right[l] = places[l]->right, sums[l] = places[l]->sum;
    float rows[M][K], columns[N][K];
    for (int k = 0; k < K; k++) {
      for (int m = 0; m < M; m++) rows[m][k] = (float)element(left, m, k);
      for (int n = 0; n < N; n++) columns[n][k] = (float)element(right, k, n);
    }
    if (tf32)
      for (int k = 0; k < K; k++) {
        for (int m = 0; m < M; m++) rows[m][k] = __float_to_tf32(rows[m][k]);
        for (int n = 0; n < N; n++) columns[n][k] = __float_to_tf32(columns[n][k]);
      }
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        float sum = (float)element(sums, m, n);
        for (int k = 0; k < K; k++) sum += rows[m][k] * columns[n][k];
        element(to, m, n) = sum;
      }
  }
  after(&own, line);
}
}  // namespace wmma
}  // namespace nvcuda
