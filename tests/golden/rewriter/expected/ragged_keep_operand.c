void kernel(const int8_t X[40][72], const int8_t W[72][100], int8_t Y[40][100]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(100);
  config_ld(72, 1.0f, 16, 0);
  config_ld(100, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  for (int c = 0; c < 100; c += 64) {
    const int width = 100 - c < 64 ? 100 - c : 64;
    for (int rr = 0; rr < 40; rr += 16) {
      const int count = 40 - rr < 16 ? 40 - rr : 16;
      mvin3(0, ACC(4 * rr), width, count);
    }
    for (int d = 0; d < 72; d += 16) {
      const int depth = 72 - d < 16 ? 72 - d : 16;
      for (int rr = 0; rr < 40; rr += 16) {
        const int count = 40 - rr < 16 ? 40 - rr : 16;
        mvin(&X[rr][d], SPAD(rr + 4096), depth, count);
      }
      mvin2(&W[d][c], SPAD(0), width, depth);
      for (int p = 0; p < width; p += 16) {
        const int part = width - p < 16 ? width - p : 16;
        preload(SPAD(p), ACC(p + 128) | ACCUMULATE, part, depth, part, 8);
        compute_preloaded(SPAD(4128), NONE, depth, 8, part, 8);
        for (int rr = 0; rr < 32; rr += 16) {
          preload(NONE, ACC(p + 4 * rr) | ACCUMULATE, part, depth, part, 16);
          compute_accumulated(SPAD(rr + 4096), NONE, depth, 16, part, 16);
        }
      }
    }
    for (int p = 0; p < width; p += 16) {
      const int part = width - p < 16 ? width - p : 16;
      for (int rr = 0; rr < 40; rr += 16) {
        const int count = 40 - rr < 16 ? 40 - rr : 16;
        mvout(&Y[rr][c + p], ACC(p + 4 * rr), part, count);
      }
    }
  }
  fence();
}
