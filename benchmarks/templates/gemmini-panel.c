// workload: gemmini:gemm-192x128x64
// A panel of B stays in the scratchpad; rows of A take turns, loaded some steps ahead.
TUNE(PANEL, 16, 32, 64, 128)   // columns of B and C at a time
TUNE(ROWS, 16, 32, 48, 64, 96) // rows of A at a time
TUNE(RING, 1, 2, 3, 4, 6)      // blocks of rows of A kept
TUNE(AHEAD, 0, 1, 2, 3)        // of them loaded before they are used
TUNE(WIDE_A, 16, 32, 64)
TUNE(WIDE_B, 16, 32, 64)
TUNE(WIDE_C, 16, 32, 64)
TUNE(KEEP, 0, 1)               // 1: weights stay in the array for all rows of a block
TUNE(HALVES, 1, 2)             // accumulator halves in turn
TUNE(UNROLL, 1, 4)
TUNE_REQUIRE(AHEAD < RING)
TUNE_REQUIRE(PANEL % WIDE_B == 0 && PANEL % WIDE_C == 0)
TUNE_REQUIRE(HALVES * ROWS * PANEL / 16 <= 1024)
#define B_AT(k, j) SPAD((k) / 16 * PANEL + (j))
#define A_AT(block, i, k) SPAD(64 * PANEL / 16 + (block) % RING * (ROWS * 64 / 16) + (i) / 16 * 64 + (k))
#define C_AT(block, i, j) ((block) % HALVES * (ROWS * PANEL / 16) + (i) / 16 * PANEL + (j))

static inline void load_a(const int8_t A[192][64], int block) {
  for (int i = 0; i < ROWS; i += 16)
    for (int k = 0; k < 64; k += WIDE_A)
      mvin(&A[block * ROWS + i][k], A_AT(block, i, k), WIDE_A, 16);
}

void kernel(const int8_t A[192][64], const int8_t B[64][128], int8_t C[192][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(128 * sizeof(elem_t));
  config_ld(64, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  for (int j = 0; j < 128; j += PANEL) {
    for (int block = 0; block < AHEAD; block++)
      load_a(A, block);
    for (int k = 0; k < 64; k += 16)
      for (int jj = 0; jj < PANEL; jj += WIDE_B)
        mvin2(&B[k][j + jj], B_AT(k, jj), WIDE_B, 16);
    for (int block = 0; block < 192 / ROWS; block++) {
      if (block + AHEAD < 192 / ROWS)
        load_a(A, block + AHEAD);
      for (int jj = 0; jj < PANEL; jj += 16)
        for (int k = 0; k < 64; k += 16) {
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 4
#pragma GCC unroll 4
#endif
          for (int i = 0; i < ROWS; i += 16) {
            const uint32_t to = ACC(C_AT(block, i, jj)) | (k ? ACCUMULATE : 0);
            if (KEEP && i) {
              preload(NONE, to, 16, 16, 16, 16);
              compute_accumulated(A_AT(block, i, k), NONE, 16, 16, 16, 16);
            } else {
              preload(B_AT(k, jj), to, 16, 16, 16, 16);
              compute_preloaded(A_AT(block, i, k), NONE, 16, 16, 16, 16);
            }
          }
        }
      for (int i = 0; i < ROWS; i += 16)
        for (int jj = 0; jj < PANEL; jj += WIDE_C)
          mvout(&C[block * ROWS + i][j + jj], ACC(C_AT(block, i, jj)), WIDE_C, 16);
    }
  }
  fence();
}
