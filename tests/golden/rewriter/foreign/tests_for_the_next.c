/* prefetch of the next tile under tests joined by || and &&; an early state machine */
#define M 128
#define N 128
#define K 192
#define A_SLOT(n) (((n) % 2) ? 256 : 0)
#define B_SLOT(n) (0x2000 + (((n) & 1) ? 256 : 0))
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  int step = 0;
  bool loaded = false;
  for (int i = 0; i < M; i += 16) {
    for (int j = 0; j < N; j += 64) {
      for (int k = 0; k < K; k += 64) {
        if (!loaded) {
          mvin(&A[i][k], A_SLOT(step), 64, 16);
          for (int kk = 0; kk < 4; kk++) mvin2(&B[k + 16 * kk][j], B_SLOT(step) + 64 * kk, 64, 16);
          loaded = true;
        }
        int nk = k + 64, nj = j, ni = i;
        if (nk >= K) { nk = 0; nj += 64; }
        if (nj >= N) { nj = 0; ni += 16; }
        if (ni < M && (nk < K || nj < N)) {
          mvin(&A[ni][nk], A_SLOT(step + 1), 64, 16);
          for (int kk = 0; kk < 4; kk++) mvin2(&B[nk + 16 * kk][nj], B_SLOT(step + 1) + 64 * kk, 64, 16);
        }
        for (int kk = 0; kk < 4; kk++)
          for (int jj = 0; jj < 4; jj++) {
            uint32_t acc = ACC(16 * jj);
            acc = (k || kk) ? acc | ACCUMULATE : acc;
            preload(B_SLOT(step) + 64 * kk + 16 * jj, acc, 16, 16, 16, 16);
            compute_preloaded(A_SLOT(step) + 16 * kk, NONE, 16, 16, 16, 16);
          }
        step++;
      }
      mvout(&C[i][j], ACC(0), 64, 16);
    }
  }
  fence();
}
