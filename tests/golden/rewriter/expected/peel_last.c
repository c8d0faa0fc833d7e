// All of a tile is loaded before it is used; some of it never is.
void kernel(const int8_t X[64][96], const int8_t W[96][32], int8_t Y[64][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(32);
  config_ld(96, 1.0f, 16, 0);
  config_ld(32, 1.0f, 24, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int r = 0; r < 48; r += 16) {
    mvin3(0, ACC(0), 32, 16);
    for (int d = 0; d < 96; d += 16) {
      mvin(&X[r][d], SPAD(d + 8192), 16, 16);
    }
    for (int d = 0; d < 96; d += 16) {
      mvin2(&W[d][0], SPAD(48 * (d / 16)), 32, 16);
    }
    mvin(&X[r][0], SPAD(12288), 16, 16);
    for (int d = 0; d < 96; d += 16) {
      for (int p = 0; p < 2; p++) {
        preload(SPAD(24 * p + 48 * (d / 16)), ACC(16 * p) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(d + 8192), NONE, 16, 16, 16, 16);
      }
    }
    mvout(&Y[r][0], ACC(0), 32, 16);
  }
  mvin3(0, ACC(0), 32, 16);
  for (int d = 0; d < 96; d += 16) {
    mvin(&X[48][d], SPAD(d + 8192), 16, 16);
  }
  for (int d = 0; d < 96; d += 16) {
    mvin2(&W[d][0], SPAD(48 * (d / 16)), 32, 16);
  }
  mvin(&X[48][0], SPAD(12288), 16, 16);
  for (int d = 0; d < 96; d += 16) {
    for (int p = 0; p < 2; p++) {
      preload(SPAD(24 * p + 48 * (d / 16)), ACC(16 * p) | ACCUMULATE, 16, 16, 16, 16);
      compute_preloaded(SPAD(d + 8192), NONE, 16, 16, 16, 16);
    }
  }
  mvout(&Y[48][0], ACC(0), 32, 16);
  fence();
}
