void kernel(const int8_t X[40][72], const int8_t W[72][100], int8_t Y[40][100]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(100);
  config_ld(72, 1.0f, 16, 0);
  config_ld(100, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int r = 0; r < 40; r += 16) {
    const int height = 40 - r < 16 ? 40 - r : 16;
    mvin3(0, ACC(0), 36, height);
    for (int d = 0; d < 72; d += 16) {
      const int depth = 72 - d < 16 ? 72 - d : 16;
      mvin(&X[r][d], SPAD(0), depth, height);
      mvin2(&W[d][64], SPAD(16), 36, depth);
      for (int p = 0; p < 36; p += 16) {
        const int count = 36 - p < 16 ? 36 - p : 16;
        preload(SPAD(p + 16), ACC(p) | ACCUMULATE, count, depth, count, height);
        compute_preloaded(SPAD(0), NONE, depth, height, count, height);
      }
    }
    for (int p = 0; p < 36; p += 16) {
      const int count = 36 - p < 16 ? 36 - p : 16;
      mvout(&Y[r][p + 64], ACC(p), count, height);
    }
    mvin3(0, ACC(0), 64, height);
    for (int d = 0; d < 72; d += 16) {
      const int depth = 72 - d < 16 ? 72 - d : 16;
      mvin(&X[r][d], SPAD(0), depth, height);
      mvin2(&W[d][0], SPAD(16), 64, depth);
      for (int p = 0; p < 64; p += 16) {
        preload(SPAD(p + 16), ACC(p) | ACCUMULATE, 16, depth, 16, height);
        compute_preloaded(SPAD(0), NONE, depth, height, 16, height);
      }
    }
    for (int p = 0; p < 64; p += 16) {
      mvout(&Y[r][p], ACC(p), 16, height);
    }
  }
  fence();
}
