/* hand-tuned: decides to load by "is first of its kind" flags joined by ||, keeps last loaded ids */
#define M 128
#define N 128
#define K 192
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  int last_i = -1, last_j = -1;
  for (int j = 0; j < N / 64; j++)
    for (int i = 0; i < M / 16; i++) {
      const bool new_j = j != last_j, new_i = i != last_i;
      if (new_j)
        for (int k = 0; k < K / 16; k++) mvin2(&B[16 * k][64 * j], 0x2000 + 64 * k, 64, 16);
      if (new_i || new_j)
        for (int k = 0; k < K / 64; k++) mvin(&A[16 * i][64 * k], 64 * k, 64, 16);
      last_i = i;
      last_j = j;
      const uint32_t acc = i % 2 ? 1u << 31 | 512u : 1u << 31;
      for (int k = 0; k < K / 16; k++)
        for (int q = 0; q < 4; q++) {
          preload(0x2000 + 64 * k + 16 * q, (acc + 16 * q) | (uint32_t)(k > 0) << 30, 16, 16, 16, 16);
          compute_preloaded(16 * k, ~0u, 16, 16, 16, 16);
        }
      mvout(&C[16 * i][64 * j], acc, 64, 16);
    }
  fence();
}
