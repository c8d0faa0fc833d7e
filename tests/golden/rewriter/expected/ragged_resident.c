void kernel(const int8_t X[40][72], const int8_t W[72][100], int8_t Y[40][100]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(100);
  config_ld(72, 1.0f, 16, 0);
  config_ld(100, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  // W for all of loop r
  for (int c = 0; c < 100; c += 64) {
    const int width = 100 - c < 64 ? 100 - c : 64;
    for (int d = 0; d < 72; d += 16) {
      const int depth = 72 - d < 16 ? 72 - d : 16;
      mvin2(&W[d][c], SPAD(c + 8 * d), width, depth);
    }
  }
  for (int r = 0; r < 40; r += 16) {
    const int height = 40 - r < 16 ? 40 - r : 16;
    for (int c = 0; c < 100; c += 64) {
      const int width = 100 - c < 64 ? 100 - c : 64;
      mvin3(0, ACC(0), width, height);
      mvin(&X[r][0], SPAD(4096 * (c / 64) + 4096), 16, height);
      for (int d = 0; d < 72; d += 16) {
        const int slot = (c / 64 + d / 16 + 1) % 2;
        const int count = 56 - d < 16 ? 56 - d : 16;
        const int depth = 72 - d < 16 ? 72 - d : 16;
        const int slot2 = (c / 64 + d / 16) % 2;
        // X for the next iteration
        if (d + 16 < 72) {
          mvin(&X[r][d + 16], SPAD(4096 * slot + 4096), count, height);
        }
        for (int p = 0; p < width; p += 16) {
          const int part = width - p < 16 ? width - p : 16;
          preload(SPAD(c + 8 * d + p), ACC(p) | ACCUMULATE, part, depth, part, height);
          compute_preloaded(SPAD(4096 * slot2 + 4096), NONE, depth, height, part, height);
        }
      }
      mvout(&Y[r][c], ACC(0), width, height);
    }
  }
  fence();
}
