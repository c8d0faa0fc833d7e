void kernel(const int8_t X[40][72], const int8_t W[72][100], int8_t Y[40][100]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(100);
  config_ld(72, 1.0f, 16, 0);
  config_ld(100, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int r = 0; r < 40; r += 16) {
    const int height = 40 - r < 16 ? 40 - r : 16;
    for (int c = 0; c < 100; c += 64) {
      const int width = 100 - c < 64 ? 100 - c : 64;
      // X for all of loop d
      for (int d = 0; d < 72; d += 64) {
        const int count = 72 - d < 64 ? 72 - d : 64;
        mvin(&X[r][d], SPAD(d), count, height);
      }
      for (int d = 0; d < 72; d += 16) {
        const int depth = 72 - d < 16 ? 72 - d : 16;
        mvin2(&W[d][c], SPAD(4096), width, depth);
        for (int p = 0; p < width; p += 16) {
          const int part = width - p < 16 ? width - p : 16;
          preload(SPAD(p + 4096), ACC(p) | (d > 0 ? ACCUMULATE : 0), part, depth, part, height);
          compute_preloaded(SPAD(d), NONE, depth, height, part, height);
        }
      }
      mvout(&Y[r][c], ACC(0), width, height);
    }
  }
  fence();
}
