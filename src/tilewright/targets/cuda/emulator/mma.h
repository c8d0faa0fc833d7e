/* `nvcuda::wmma`: products of small matrices that a warp computes together.

   Which thread holds which element of a fragment is not specified by CUDA. Here the first thread of the warp holds
   all of them; the others meet it before it does anything, and what they hold means nothing. They wait until it has
   loaded a matrix, but not until it has stored one: CUDA orders a store before what other threads of the warp read only
   by __syncwarp(). */
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

template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
  static constexpr int rows = std::is_same<Use, matrix_b>::value ? K : M;
  static constexpr int columns = std::is_same<Use, matrix_a>::value ? K : N;
  static constexpr int num_elements = rows * columns;
  typename stored<T>::type x[num_elements];
};
inline bool first_thread(int line) {
  tw_warp(TW_MEET, 0xffffffffu, 0, 0, line);
  return tw_lane() == 0;
}
inline void after(int line) { tw_warp(TW_MEET, 0xffffffffu, 0, 0, line); }
inline float __float_to_tf32(float value) {
  unsigned wide = tw::bits<unsigned>(value);
  return tw::bits<float>((wide + 0x1000) & ~0x1fffu);
}
template <class F, class T> inline void fill_fragment(F &f, T value) {
  for (auto &element : f.x) element = value;
}
template <class Use, int M, int N, int K, class T, class Layout, class S>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const S *from, unsigned stride, int line = __builtin_LINE()) {
  using F = fragment<Use, M, N, K, T, Layout>;
  if (first_thread(line))
    for (int r = 0; r < F::rows; r++)
      for (int c = 0; c < F::columns; c++)
        f.x[r * F::columns + c] = std::is_same<Layout, col_major>::value ? from[c * stride + r] : from[r * stride + c];
  after(line);
}
template <int M, int N, int K, class T, class S>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const S *from, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  if (first_thread(line))
    for (int r = 0; r < M; r++)
      for (int c = 0; c < N; c++) f.x[r * N + c] = layout == mem_col_major ? from[c * stride + r] : from[r * stride + c];
  after(line);
}
template <int M, int N, int K, class T, class S>
inline void store_matrix_sync(S *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride, layout_t layout, int line = __builtin_LINE()) {
  if (first_thread(line))
    for (int r = 0; r < M; r++)
      for (int c = 0; c < N; c++) (layout == mem_col_major ? to[c * stride + r] : to[r * stride + c]) = f.x[r * N + c];
}
template <int M, int N, int K, class D, class A, class LA, class B, class LB, class C>
inline void mma_sync(fragment<accumulator, M, N, K, D> &d, const fragment<matrix_a, M, N, K, A, LA> &a,
                     const fragment<matrix_b, M, N, K, B, LB> &b, const fragment<accumulator, M, N, K, C> &c,
                     int line = __builtin_LINE()) {
  constexpr bool tf32 = std::is_same<A, precision::tf32>::value;
  if (first_thread(line))
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        float sum = (float)c.x[m * N + n];
        for (int k = 0; k < K; k++) {
          float left = (float)a.x[m * K + k], right = (float)b.x[k * N + n];
          sum += tf32 ? __float_to_tf32(left) * __float_to_tf32(right) : left * right;
        }
        d.x[m * N + n] = sum;
      }
}
}  // namespace wmma
}  // namespace nvcuda
