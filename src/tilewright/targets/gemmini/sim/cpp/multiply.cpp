#include "multiply.hpp"

#include <cstring>

#include "arithmetic.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define COSIM_HAS_AVX2_CODE
#include <immintrin.h>
#endif

// Vectors are short, and the fused multiply-add is a library call, where the compiler must suit any
// processor.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COSIM_FOR_HOST __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define COSIM_FOR_HOST
#endif

namespace cosim {
namespace {

template <typename A>
inline void multiply_rows(int dim, int rows, const typename A::Factor* a,
                          const typename A::Factor* b, typename A::Sum* sums) {
  for (int i = 0; i < rows; i++) {
    for (int k = 0; k < dim; k++) {
      const auto factor = a[i * dim + k];
      for (int j = 0; j < dim; j++) {
        sums[i * dim + j] = A::multiply_add(factor, b[k * dim + j], sums[i * dim + j]);
      }
    }
  }
}

#ifdef COSIM_HAS_AVX2_CODE

// Two rows of b at once: the sum of two products of int8 fits easily.
template <int kDim>
__attribute__((target("avx2"))) void multiply_pairs(int rows, const i16* a, const i16* b,
                                                    i32* sums) {
  constexpr int kVectors = kDim / 8;
  __m256i pairs[kDim / 2][kVectors];  // b[2k][j], b[2k + 1][j] side by side
  for (int k = 0; k < kDim / 2; k++) {
    for (int v = 0; v < kVectors; v++) {
      const i16* from = b + 2 * k * kDim + 8 * v;
      const __m128i even = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m128i odd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + kDim));
      pairs[k][v] =
          _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd));
    }
  }
  for (int i = 0; i < rows; i++) {
    __m256i* row = reinterpret_cast<__m256i*>(sums + i * kDim);
    __m256i sum[kVectors];
    for (int v = 0; v < kVectors; v++) sum[v] = _mm256_loadu_si256(row + v);
    for (int k = 0; k < kDim / 2; k++) {
      i32 two;  // a[i][2k], a[i][2k + 1]
      std::memcpy(&two, a + i * kDim + 2 * k, sizeof two);
      const __m256i factors = _mm256_set1_epi32(two);
      for (int v = 0; v < kVectors; v++) {
        sum[v] = _mm256_add_epi32(sum[v], _mm256_madd_epi16(factors, pairs[k][v]));
      }
    }
    for (int v = 0; v < kVectors; v++) _mm256_storeu_si256(row + v, sum[v]);
  }
}

#endif

}  // namespace

void multiply_add(int dim, int rows, const i16* a, const i16* b, i32* sums) {
#ifdef COSIM_HAS_AVX2_CODE
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2 && dim == 8) return multiply_pairs<8>(rows, a, b, sums);
  if (has_avx2 && dim == 16) return multiply_pairs<16>(rows, a, b, sums);
  if (has_avx2 && dim == 32) return multiply_pairs<32>(rows, a, b, sums);
#endif
  // A constant lets the compiler vectorise.
  if (dim == 16) return multiply_rows<IntegerArithmetic>(16, rows, a, b, sums);
  multiply_rows<IntegerArithmetic>(dim, rows, a, b, sums);
}

COSIM_FOR_HOST void multiply_add(int dim, int rows, const float* a, const float* b, float* sums) {
  switch (dim) {
    case 4: return multiply_rows<FloatArithmetic>(4, rows, a, b, sums);
    case 8: return multiply_rows<FloatArithmetic>(8, rows, a, b, sums);
    case 16: return multiply_rows<FloatArithmetic>(16, rows, a, b, sums);
    default: return multiply_rows<FloatArithmetic>(dim, rows, a, b, sums);
  }
}

}  // namespace cosim
