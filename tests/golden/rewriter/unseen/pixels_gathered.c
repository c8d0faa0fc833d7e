/* im2col in the scratchpad: one row per pixel and tap */
enum { H = 28, W = 28, C = 16, F = 32, TAPS = 9 };
static void im2col(const int8_t x[30][30][C], int row, int col, int n, uint32_t at) {
  for (int tap = 0; tap < TAPS; tap++)
    mvin(x[row + tap / 3][col + tap % 3], at + tap * DIM, C, n);
}
void kernel(const int8_t x[2][30][30][C], const int8_t w[144][F], const int32_t b[F], int8_t y[2][H][W][F]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(C, 1.0f, DIM, 0);
  config_ld(F, 1.0f, DIM, 1);
  config_ld(0, 1.0f, DIM, 2);
  config_st(F, 1.0f, RELU);
  for (int img = 0; img < 2; img++)
    for (int p = 0; p < H * 2; p++) {
      const int row = p >> 1, col = (p & 1) * 16, n = col ? W - 16 : 16;
      im2col(x[img], row, col, n, SPAD(0));
      mvin3(b, ACC(0), F, n);
      for (int tap = 0; tap < TAPS; tap++) {
        mvin2(w[tap * C], SPAD(1024), F, C);
        for (int f = 0; f < F; f += DIM) {
          preload(SPAD(1024 + f), ACC(f) | ACCUMULATE, DIM, DIM, DIM, n);
          compute_preloaded(SPAD(tap * DIM), NONE, DIM, n, DIM, n);
        }
      }
      mvout(y[img][row][col], ACC(0), F, n);
    }
  fence();
}
