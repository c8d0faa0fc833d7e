/* flags per column of whether the sum has begun, decided by || and && */
#define M 128
#define N 128
#define K 192
#define T 16
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, T, 0);
  config_ld(N, 1.0f, T, 1);
  bool first[N / T];
  for (int i = 0; i < M; i += T) {
    for (int j = 0; j < N / T; j++) first[j] = true;
    for (int k = 0; k < K; k += T) {
      mvin(&A[i][k], 0, T, T);
      for (int j = 0; j < N / T; j++) {
        const bool wide = j % 4 == 0 && j < N / T;
        if (wide || false) mvin2(&B[k][j * T], 0x1000 + j / 4 * 64, 4 * T, T);
        uint32_t c = (1u << 31) | (j * T);
        if (!first[j]) c |= 1u << 30;
        preload(0x1000 + j * T, c, T, T, T, T);
        compute_preloaded(0, ~0u, T, T, T, T);
        first[j] = false;
      }
    }
    for (int j = 0; j < N / T; j += 4) mvout(&C[i][j * T], (1u << 31) | (j * T), 4 * T, T);
  }
  fence();
}
