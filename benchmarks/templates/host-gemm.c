// workload: host-c:gemm-192x192x192
// Register tiles in blocks: their sizes, the order of the blocks, and what is unrolled.
TUNE(MR, 1, 2, 4, 6, 8)            // rows of the register tile
TUNE(NR, 8, 16, 32, 48, 64)        // columns of the register tile
TUNE(KC, 24, 48, 96, 192)          // depth of a block
TUNE(MC, 24, 48, 96, 192)          // rows of a block
TUNE(NC, 64, 96, 192)              // columns of a block
TUNE(UNROLL, 1, 2, 4, 8)           // steps of the depth at once
TUNE(ROWS_FIRST, 0, 1)             // which of the two outer loops over blocks is inside
TUNE_REQUIRE(NC % NR == 0 && MC % MR == 0 && MR * NR <= 384)
#define FIRST (ROWS_FIRST ? 192 / NC : 192 / MC)
#define SECOND (ROWS_FIRST ? 192 / MC : 192 / NC)

void kernel(const float A[192][192], const float B[192][192], float C[192][192]) {
  for (int i = 0; i < 192; i++)
    for (int j = 0; j < 192; j++) C[i][j] = 0.0f;
  for (int k0 = 0; k0 < 192; k0 += KC)
    for (int first = 0; first < FIRST; first++)
      for (int second = 0; second < SECOND; second++) {
        const int i0 = (ROWS_FIRST ? second : first) * MC, j0 = (ROWS_FIRST ? first : second) * NC;
        for (int j = j0; j < j0 + NC; j += NR)
          for (int i = i0; i < i0 + MC; i += MR) {
            float sum[MR][NR];
            for (int r = 0; r < MR; r++)
              for (int c = 0; c < NR; c++) sum[r][c] = C[i + r][j + c];
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 2
#pragma GCC unroll 2
#elif UNROLL == 4
#pragma GCC unroll 4
#elif UNROLL == 8
#pragma GCC unroll 8
#endif
            for (int k = k0; k < k0 + KC; k++)
              for (int r = 0; r < MR; r++)
                for (int c = 0; c < NR; c++) sum[r][c] += A[i + r][k] * B[k][j + c];
            for (int r = 0; r < MR; r++)
              for (int c = 0; c < NR; c++) C[i + r][j + c] = sum[r][c];
          }
      }
}
