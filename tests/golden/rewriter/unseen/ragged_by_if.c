// Sizes that no tile divides, cut by `if`; the loop over the depth is the outer one of a column.
#define M 200
#define N 100
#define K 250
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  config_st(N);
  for (int j = 0; j < N; j += 16) {
    int w = 16;
    if (j + w > N) w = N - j;
    for (int i = 0; i < M; i += 16) {
      int h = M - i;
      if (h > 16) {
        h = 16;
      }
      for (int k = 0; k < K; k += 16) {
        int d = K - k >= 16 ? 16 : K - k;
        mvin(&A[i][k], SPAD(0), d, h);
        mvin2(&B[k][j], SPAD(4096), w, d);
        if (k == 0) {
          preload(SPAD(4096), ACC(0), w, d, w, h);
        } else {
          preload(SPAD(4096), ACC(0) | ACCUMULATE, w, d, w, h);
        }
        compute_preloaded(SPAD(0), NONE, d, h, w, h);
      }
      mvout(&C[i][j], ACC(0), w, h);
    }
  }
  fence();
}
