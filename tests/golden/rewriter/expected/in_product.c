static int8_t T[64][96];
void kernel(const int8_t X[64][48], const int8_t W[48][96], const int8_t U[96][32],
            int8_t Y[64][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 16, 0);
  config_ld(96, 1.0f, 16, 1);
  config_st(96);
  for (int i = 0; i < 64; i += 16) {
    for (int j = 0; j < 96; j += 48) {
      for (int k = 0; k < 48; k += 16) {
        mvin(&X[i][k], SPAD(8192), 16, 16);
        for (int jj = 0; jj < 48; jj += 16) {
          mvin2(&W[k][j + jj], SPAD(jj + 4096), 16, 16);
        }
        for (int jj = 0; jj < 48; jj += 16) {
          preload(SPAD(jj + 4096), ACC(jj) | (k != 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
          compute_preloaded(SPAD(8192), NONE, 16, 16, 16, 16);
        }
      }
      for (int jj = 0; jj < 48; jj += 16) {
        mvout(&T[i][j + jj], ACC(jj), 16, 16);
      }
    }
  }
  fence();
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(32, 1.0f, 16, 1);
  // U for all of loop i
  for (int k = 0; k < 96; k += 16) {
    // U for all of loop i
    mvin2(&U[k][0], SPAD(2 * k), 32, 16);
  }
  config_ld(96, 1.0f, 16, 0);
  config_st(32);
  for (int i = 0; i < 64; i += 16) {
    for (int j = 0; j < 32; j += 16) {
      for (int k = 0; k < 96; k += 16) {
        mvin(&T[i][k], SPAD(12288), 16, 16);
        preload(SPAD(j + 2 * k), ACC(512) | (k != 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
        compute_preloaded(SPAD(12288), NONE, 16, 16, 16, 16);
      }
      mvout(&Y[i][j], ACC(512), 16, 16);
    }
  }
  fence();
}
