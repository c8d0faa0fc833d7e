// Output-stationary: sums stay in the array, and leave it with the last product.
void kernel(const int8_t X[40][72], const int8_t W[72][24], int8_t Y[40][24]) {
  config_ex(OUTPUT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(72, 1.0f, 16, 0);
  config_ld(24, 1.0f, 16, 1);
  config_st(24);
  for (int r = 0; r < 40; r += 16) {
    const int rows = 40 - r < 16 ? 40 - r : 16;
    for (int c = 0; c < 24; c += 16) {
      const int cols = 24 - c < 16 ? 24 - c : 16;
      for (int d = 0; d < 72; d += 16) {
        const int depth = 72 - d < 16 ? 72 - d : 16;
        mvin(&X[r][d], SPAD(0), depth, rows);
        mvin2(&W[d][c], SPAD(4096), cols, depth);
        preload(NONE, d + 16 >= 72 ? ACC(0) : NONE, cols, depth, cols, rows);
        if (d == 0) compute_preloaded(SPAD(0), SPAD(4096), depth, rows, cols, depth);
        else compute_accumulated(SPAD(0), SPAD(4096), depth, rows, cols, depth);
      }
      mvout(&Y[r][c], ACC(0), cols, rows);
    }
  }
  fence();
}
