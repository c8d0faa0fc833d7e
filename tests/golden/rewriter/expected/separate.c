// Two products that share rows, twice: the second one's input is what the first one stored.
void kernel(const int8_t X[2][48][32], const int8_t V[32][48], const int8_t W[48][32],
            int8_t T[2][48][48], int8_t Y[2][48][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int n = 0; n < 2; n++) {
    config_ld(32, 1.0f, 16, 0);
    config_ld(48, 1.0f, 16, 1);
    config_st(48);
    for (int r = 0; r < 48; r += 16) {
      for (int c = 0; c < 48; c += 16) {
        for (int d = 0; d < 32; d += 16) {
          mvin(&X[n][r][d], SPAD(0), 16, 16);
          mvin2(&V[d][c], SPAD(4096), 16, 16);
          preload(SPAD(4096), ACC(0) | (d != 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
        mvout(&T[n][r][c], ACC(0), 16, 16);
      }
    }
    fence();
    config_ld(48, 1.0f, 16, 0);
    config_ld(32, 1.0f, 16, 1);
    config_st(32);
    for (int r = 0; r < 48; r += 16) {
      for (int c = 0; c < 32; c += 16) {
        for (int d = 0; d < 48; d += 16) {
          mvin(&T[n][r][d], SPAD(8192), 16, 16);
          mvin2(&W[d][c], SPAD(12288), 16, 16);
          preload(SPAD(12288), ACC(512) | (d != 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
          compute_preloaded(SPAD(8192), NONE, 16, 16, 16, 16);
        }
        mvout(&Y[n][r][c], ACC(512), 16, 16);
      }
    }
  }
  fence();
}
