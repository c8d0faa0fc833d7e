// Two products, one after the other: T = A * B, then C = T * D, with T in memory.
static void product(const int8_t *x, const int8_t *y, int8_t *z, int m, int n, int k) {
  config_ld(k, 1.0f, 16, 0);
  config_ld(n, 1.0f, 16, 1);
  config_st(n);
  for (int i = 0; i < m; i += 16)
    for (int j = 0; j < n; j += 16) {
      for (int p = 0; p < k; p += 16) {
        mvin(x + i * k + p, SPAD(0), 16, 16);
        mvin2(y + p * n + j, SPAD(16), 16, 16);
        preload(SPAD(16), ACC(0) | (p ? ACCUMULATE : 0), 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      mvout(z + i * n + j, ACC(0), 16, 16);
    }
  fence();
}

void kernel(const int8_t A[128][64], const int8_t B[64][96], const int8_t D[96][128],
            int8_t T[128][96], int8_t C[128][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  product(&A[0][0], (const int8_t *)B, &T[0][0], 128, 96, 64);
  product((const int8_t *)T, &D[0][0], (int8_t *)C, 128, 128, 96);
}
