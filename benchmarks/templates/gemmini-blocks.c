// workload: gemmini:gemm-96x128x192
// Blocks of the local memories: how large, how many take turns, and what stays in the array.
TUNE(BI, 16, 32, 48, 96)      // rows of C at a time
TUNE(BJ, 16, 32, 64, 128)     // columns of C at a time
TUNE(BK, 16, 32, 64, 96, 192) // depth loaded at a time
TUNE(SLOTS, 1, 2, 3)          // blocks of A and B that take turns
TUNE(WIDE_A, 16, 32, 48, 64)  // columns of A that one command loads
TUNE(WIDE_B, 16, 32, 64)
TUNE(WIDE_C, 16, 32, 64)
TUNE(KEEP, 0, 1)              // 1: weights stay in the array for all rows of a block
TUNE(HALVES, 1, 2)            // accumulator halves in turn
TUNE_REQUIRE(BK % WIDE_A == 0 && BJ % WIDE_B == 0 && BJ % WIDE_C == 0)
TUNE_REQUIRE(SLOTS * (BI * BK + BK * BJ) / 16 <= 16384)
TUNE_REQUIRE(HALVES * BI * BJ / 16 <= 1024)
#define A_AT(slot, i, k) SPAD((slot) * (BI * BK / 16) + (i) / 16 * BK + (k))
#define B_AT(slot, k, j) SPAD(SLOTS * (BI * BK / 16) + (slot) * (BK * BJ / 16) + (k) / 16 * BJ + (j))
#define C_AT(half, i, j) ((half) * (BI * BJ / 16) + (i) / 16 * BJ + (j))

void kernel(const int8_t A[96][192], const int8_t B[192][128], int8_t C[96][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(128 * sizeof(elem_t));
  config_ld(192, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  int turn = 0, tile = 0;
  for (int i = 0; i < 96; i += BI)
    for (int j = 0; j < 128; j += BJ, tile++) {
      for (int k = 0; k < 192; k += BK, turn++) {
        for (int ii = 0; ii < BI; ii += 16)
          for (int kk = 0; kk < BK; kk += WIDE_A)
            mvin(&A[i + ii][k + kk], A_AT(turn % SLOTS, ii, kk), WIDE_A, 16);
        for (int kk = 0; kk < BK; kk += 16)
          for (int jj = 0; jj < BJ; jj += WIDE_B)
            mvin2(&B[k + kk][j + jj], B_AT(turn % SLOTS, kk, jj), WIDE_B, 16);
        for (int jj = 0; jj < BJ; jj += 16)
          for (int kk = 0; kk < BK; kk += 16)
            for (int ii = 0; ii < BI; ii += 16) {
              const uint32_t to = ACC(C_AT(tile % HALVES, ii, jj)) | (k + kk ? ACCUMULATE : 0);
              if (KEEP && ii) {
                preload(NONE, to, 16, 16, 16, 16);
                compute_accumulated(A_AT(turn % SLOTS, ii, kk), NONE, 16, 16, 16, 16);
              } else {
                preload(B_AT(turn % SLOTS, kk, jj), to, 16, 16, 16, 16);
                compute_preloaded(A_AT(turn % SLOTS, ii, kk), NONE, 16, 16, 16, 16);
              }
            }
      }
      for (int ii = 0; ii < BI; ii += 16)
        for (int jj = 0; jj < BJ; jj += WIDE_C)
          mvout(&C[i + ii][j + jj], ACC(C_AT(tile % HALVES, ii, jj)), WIDE_C, 16);
    }
  fence();
}
