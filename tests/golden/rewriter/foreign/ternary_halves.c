/* ternaries choose between halves; the half in use is a pointer-like variable */
#define M 128
#define N 128
#define K 192
void kernel(const int8_t A[M][K], const int8_t B[K][N], int8_t C[M][N]) {
  enum { PING = 0x000, PONG = 0x800 };
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(N);
  config_ld(K, 1.0f, 16, 0);
  config_ld(N, 1.0f, 16, 1);
  uint32_t buf = PING;
  for (int bi = 0; bi < M / 16; bi++)
    for (int bj = 0; bj < N / 64; bj++) {
      const uint32_t acc = (bi + bj) & 1 ? 0x80000200 : 0x80000000;
      for (int bk = 0; bk < K / 64; bk++) {
        const uint32_t a = buf == PING ? PING : PONG;
        const uint32_t b = a + 0x400;
        mvin(&A[bi * 16][bk * 64], a, 64, 16);
        for (int kk = 0; kk < 4; kk++) mvin2(&B[bk * 64 + kk * 16][bj * 64], b + kk * 64, 64, 16);
        for (int kk = 0; kk < 4; kk++)
          for (int jj = 0; jj < 4; jj++) {
            preload(b + kk * 64 + jj * 16, bk > 0 || kk > 0 ? (acc + jj * 16) | 0x40000000 : acc + jj * 16, 16, 16, 16, 16);
            compute_preloaded(a + kk * 16, 0xffffffff, 16, 16, 16, 16);
          }
        buf = buf == PING ? PONG : PING;
      }
      mvout(&C[bi * 16][bj * 64], acc, 64, 16);
    }
  fence();
}
