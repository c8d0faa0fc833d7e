// workload: host-c:gemm-96x120x80
// Register tiles of any size, of which few fit the registers; B may be packed; any order of blocks.
TUNE(ORDER, 0, 1, 2, 3, 4, 5)        // ijk, ikj, jik, jki, kij, kji
TUNE(MR, 1, 2, 3, 4, 6, 8, 12)
TUNE(NR, 5, 8, 12, 20, 24, 40, 60)
TUNE(KB, 10, 20, 40, 80)
TUNE(MB, 12, 24, 48, 96)
TUNE(NB, 40, 60, 120)
TUNE(PACK, 0, 1)
TUNE(K_INSIDE, 0, 1)                 // 1: the sums of a tile stay in registers
TUNE(UNROLL, 1, 2, 5)
TUNE_REQUIRE(NB % NR == 0 && MB % MR == 0)
TUNE_REQUIRE(MR * NR >= 24 && MR * NR <= 192 && MB * KB + KB * NB <= 9600)

static inline void block(const float A[96][80], const float B[80][120], float C[96][120], int i0,
                         int j0, int k0) {
  static float packed[KB][NB];
  if (PACK)
    for (int k = 0; k < KB; k++)
      for (int j = 0; j < NB; j++) packed[k][j] = B[k0 + k][j0 + j];
  for (int j = 0; j < NB; j += NR)
    for (int i = i0; i < i0 + MB; i += MR) {
      if (K_INSIDE) {
        float sum[MR][NR];
        for (int r = 0; r < MR; r++)
          for (int c = 0; c < NR; c++) sum[r][c] = C[i + r][j0 + j + c];
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 2
#pragma GCC unroll 2
#elif UNROLL == 5
#pragma GCC unroll 5
#endif
        for (int k = 0; k < KB; k++)
          for (int r = 0; r < MR; r++)
            for (int c = 0; c < NR; c++)
              sum[r][c] += A[i + r][k0 + k] * (PACK ? packed[k][j + c] : B[k0 + k][j0 + j + c]);
        for (int r = 0; r < MR; r++)
          for (int c = 0; c < NR; c++) C[i + r][j0 + j + c] = sum[r][c];
      } else {
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 2
#pragma GCC unroll 2
#elif UNROLL == 5
#pragma GCC unroll 5
#endif
        for (int k = 0; k < KB; k++)
          for (int r = 0; r < MR; r++)
            for (int c = 0; c < NR; c++)
              C[i + r][j0 + j + c] +=
                  A[i + r][k0 + k] * (PACK ? packed[k][j + c] : B[k0 + k][j0 + j + c]);
      }
    }
}

void kernel(const float A[96][80], const float B[80][120], float C[96][120]) {
  for (int i = 0; i < 96; i++)
    for (int j = 0; j < 120; j++) C[i][j] = 0.0f;
  const int is = 96 / MB, js = 120 / NB, ks = 80 / KB;
  const int outer = ORDER < 2 ? is : ORDER < 4 ? js : ks;
  const int middle = ORDER == 0 || ORDER == 5 ? js : ORDER == 1 || ORDER == 3 ? ks : is;
  const int inner = ORDER == 0 || ORDER == 2 ? ks : ORDER == 1 || ORDER == 4 ? js : is;
  for (int x = 0; x < outer; x++)
    for (int y = 0; y < middle; y++)
      for (int z = 0; z < inner; z++)
        block(A, B, C, MB * (ORDER < 2 ? x : ORDER == 2 || ORDER == 4 ? y : z),
              NB * (ORDER == 0 || ORDER == 5 ? y : ORDER == 2 || ORDER == 3 ? x : z),
              KB * (ORDER >= 4 ? x : ORDER == 1 || ORDER == 3 ? y : z));
}
