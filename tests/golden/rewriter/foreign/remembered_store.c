/* stores one tile late: previous address and place remembered, with a sentinel */
#define M 128
#define N 128
#define K 192
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  int8_t *prev_out = NULL;
  uint32_t prev_acc = 0xffffffffu;
  int turn = 0;
  for (int k = 0; k < K; k += 16)
    for (int j = 0; j < N; j += 64) mvin2(&B[k][j], 0x1000 + (k / 16) * 128 + j, 64, 16);
  for (int i = 0; i < M; i += 16) {
    for (int k = 0; k < K; k += 64) mvin(&A[i][k], (turn ? 0x400 : 0) + k, 64, 16);
    for (int j = 0; j < N; j += 64) {
      uint32_t acc = 0x80000000u + (turn ? 512 : 0) + j;
      for (int jj = 0; jj < 64; jj += 16)
        for (int k = 0; k < K; k += 16) {
          preload(0x1000 + (k / 16) * 128 + j + jj, (acc + jj) | (k ? 0x40000000 : 0), 16, 16, 16, 16);
          compute_preloaded((turn ? 0x400 : 0) + k, 0xffffffffu, 16, 16, 16, 16);
        }
      if (prev_acc != 0xffffffffu && prev_out) mvout(prev_out, prev_acc, 64, 16);
      prev_out = &C[i][j];
      prev_acc = acc;
    }
    turn = !turn;
  }
  if (prev_out != NULL) mvout(prev_out, prev_acc, 64, 16);
  fence();
}
