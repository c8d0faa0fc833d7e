// workload: gemmini-fp32-4x4:gemm-40x36x44
// Which operand stays in the array, and many choices of which most hardly matter.
TUNE(OUTPUTS, 0, 1)            // 1: sums stay in the array, 0: weights do
TUNE(TI, 4, 8, 20, 40)
TUNE(TJ, 4, 12, 36)
TUNE(UNROLL, 1, 2, 11)         // steps of the depth at once
TUNE(WIDE_A, 1, 2, 4)          // column blocks that one load moves
TUNE(WIDE_B, 1, 3)
TUNE(A_WHOLE, 0, 1)            // A is loaded once, or for every tile
TUNE(B_WHOLE, 0, 1)
TUNE(B_BANK, 0, 1, 3)
TUNE(FENCES, 0, 1)             // a fence after every tile
TUNE(J_OUTSIDE, 0, 1)
TUNE_REQUIRE(B_WHOLE || !FENCES)
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define A_AT(i, k) SPAD((k) / 4 * 40 + (i))
#define B_AT(k, j) SPAD(B_BANK * SPAD_BANK_ROWS + 1024 + (j) / 4 * 44 + (k))
#define C_AT(i, j) ((j) / 4 * 40 + (i))

static inline void load_a(const float A[40][44], int i0, int rows) {
  for (int i = i0; i < i0 + rows; i += 4)
    for (int k = 0; k < 44; k += 4 * WIDE_A)
      mvin(&A[i][k], A_AT(i, k), LESS(4 * WIDE_A, 44 - k), 4);
}

static inline void load_b(const float B[44][36], int j0, int columns) {
  for (int k = 0; k < 44; k += 4)
    for (int j = j0; j < j0 + columns; j += 4 * WIDE_B)
      mvin2(&B[k][j], B_AT(k, j), LESS(4 * WIDE_B, j0 + columns - j), 4);
}

static inline void sums(int i, int j) {
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 2
#pragma GCC unroll 2
#elif UNROLL == 11
#pragma GCC unroll 11
#endif
  for (int k = 0; k < 44; k += 4) {
    preload(NONE, k == 40 ? ACC(C_AT(i, j)) : NONE, 4, 4, 4, 4);
    if (k) compute_accumulated(A_AT(i, k), B_AT(k, j), 4, 4, 4, 4);
    else compute_preloaded(A_AT(i, k), B_AT(k, j), 4, 4, 4, 4);
  }
}

static inline void products(int i0, int j) {
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 2
#pragma GCC unroll 2
#elif UNROLL == 11
#pragma GCC unroll 11
#endif
  for (int k = 0; k < 44; k += 4)
    for (int i = i0; i < i0 + TI; i += 4) {
      preload(i > i0 ? NONE : B_AT(k, j), ACC(C_AT(i, j)) | (k ? ACCUMULATE : 0), 4, 4, 4, 4);
      if (i > i0) compute_accumulated(A_AT(i, k), NONE, 4, 4, 4, 4);
      else compute_preloaded(A_AT(i, k), NONE, 4, 4, 4, 4);
    }
}

void kernel(const float A[40][44], const float B[44][36], float C[40][36]) {
  config_ex(OUTPUTS ? OUTPUT_STATIONARY : WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(36 * sizeof(float));
  config_ld(44 * sizeof(float), 1.0f, 40, 0);
  config_ld(36 * sizeof(float), 1.0f, 44, 1);
  if (A_WHOLE) load_a(A, 0, 40);
  if (B_WHOLE) load_b(B, 0, 36);
  const int outer = J_OUTSIDE ? 36 / TJ : 40 / TI, inner = J_OUTSIDE ? 40 / TI : 36 / TJ;
  for (int x = 0; x < outer; x++)
    for (int y = 0; y < inner; y++) {
      const int i0 = (J_OUTSIDE ? y : x) * TI, j0 = (J_OUTSIDE ? x : y) * TJ;
      if (!A_WHOLE && (J_OUTSIDE || y == 0)) load_a(A, i0, TI);
      if (!B_WHOLE && (!J_OUTSIDE || y == 0)) load_b(B, j0, TJ);
      for (int j = j0; j < j0 + TJ; j += 4) {
        if (OUTPUTS)
          for (int i = i0; i < i0 + TI; i += 4) sums(i, j);
        else
          products(i0, j);
      }
      for (int i = i0; i < i0 + TI; i += 4)
        for (int j = j0; j < j0 + TJ; j += 4)
          mvout(&C[i][j], ACC(C_AT(i, j)), 4, 4);
      if (FENCES) fence();
    }
  fence();
}
