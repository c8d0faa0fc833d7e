// workload: gemmini:conv-1x12x14x32x32-k3s1
// A ring of input lines. A ring that is too small for the lines of a block gives wrong results.
TUNE(XT, 2, 3, 5, 7, 14)        // pixels of a product
TUNE(YB, 1, 2, 3, 4, 6)         // output lines of a block
TUNE(RING, 3, 4, 5, 6, 8, 14)   // input lines kept
TUNE(KB, 16, 32)                // filters of a block
TUNE(WEIGHTS, 0, 1, 2)          // loaded: 0 once, 1 before each block, 2 before each tap of a block
TUNE(TAP_OUTSIDE, 0, 1)         // taps outside the loops over pixels: the array keeps its weights
TUNE(BIAS_LAST, 0, 1)
TUNE(CHANNELS, 16, 32)          // channels of one load
TUNE(BANK, 1, 2, 3)             // where the weights are
TUNE(UNROLL, 1, 3)
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define LINE_AT(line, x, c) SPAD((line) % RING * 32 + (c) / 16 * 16 + (x))
#define WEIGHT_AT(tap, c, k) SPAD(BANK * SPAD_BANK_ROWS + ((tap) * 2 + (c) / 16) * 32 + (k))
#define C_AT(y, x, k) ((y) * 28 + (k) / 16 * 14 + (x))

static inline void load_tap(const int8_t weights[3][3][32][32], int r, int s) {
  for (int c = 0; c < 32; c += 16)
    mvin2(&weights[r][s][c][0], WEIGHT_AT(r * 3 + s, c, 0), 32, 16);
}

static inline void products(int y, int r, int s, int k, int c, int x, int first, int kept) {
  const int pixels = LESS(XT, 14 - x);
  const uint32_t to = ACC(C_AT(y % YB, x, k)) | (first && BIAS_LAST ? 0 : ACCUMULATE);
  if (kept) {
    preload(NONE, to, 16, 16, 16, pixels);
    compute_accumulated(LINE_AT(y + r, x + s, c), NONE, 16, pixels, 16, pixels);
  } else {
    preload(WEIGHT_AT(r * 3 + s, c, k), to, 16, 16, 16, pixels);
    compute_preloaded(LINE_AT(y + r, x + s, c), NONE, 16, pixels, 16, pixels);
  }
}

void kernel(const int8_t input[1][14][16][32], const int8_t weights[3][3][32][32],
            const int32_t bias[32], int8_t output[1][12][14][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(32);
  config_ld(32, 1.0f, 16, 0);
  config_ld(32, 1.0f, 16, 1);
  config_ld(0, 1.0f, 14, 2);
  if (WEIGHTS == 0)
    for (int tap = 0; tap < 9; tap++) load_tap(weights, tap / 3, tap % 3);
  int loaded = 0;
  for (int y0 = 0; y0 < 12; y0 += YB) {
    for (; loaded < y0 + YB + 2; loaded++)
      for (int c = 0; c < 32; c += CHANNELS)
        mvin(&input[0][loaded][0][c], LINE_AT(loaded, 0, c), CHANNELS, 16);
    if (WEIGHTS == 1)
      for (int tap = 0; tap < 9; tap++) load_tap(weights, tap / 3, tap % 3);
    if (!BIAS_LAST)
      for (int y = 0; y < YB; y++) mvin3(&bias[0], ACC(C_AT(y, 0, 0)), 32, 14);
    for (int k0 = 0; k0 < 32; k0 += KB) {
      if (TAP_OUTSIDE) {
        for (int r = 0; r < 3; r++)
          for (int s = 0; s < 3; s++) {
            if (WEIGHTS == 2) load_tap(weights, r, s);
            for (int c = 0; c < 32; c += 16)
              for (int k = k0; k < k0 + KB; k += 16)
                for (int y = y0; y < y0 + YB; y++)
                  for (int x = 0; x < 14; x += XT)
                    products(y, r, s, k, c, x, !(r + s + c), y > y0 || x);
          }
      } else {
        if (WEIGHTS == 2)
          for (int tap = 0; tap < 9; tap++) load_tap(weights, tap / 3, tap % 3);
        for (int y = y0; y < y0 + YB; y++)
          for (int k = k0; k < k0 + KB; k += 16)
            for (int r = 0; r < 3; r++) {
#if UNROLL == 1
#pragma GCC unroll 1
#elif UNROLL == 3
#pragma GCC unroll 3
#endif
              for (int s = 0; s < 3; s++)
                for (int c = 0; c < 32; c += 16)
                  for (int x = 0; x < 14; x += XT)
                    products(y, r, s, k, c, x, !(r + s + c), x > 0);
            }
      }
    }
    if (BIAS_LAST)
      for (int y = 0; y < YB; y++) mvin3(&bias[0], ACC(C_AT(y, 0, 0)) | ACCUMULATE, 32, 14);
    for (int y = y0; y < y0 + YB; y++)
      for (int k = 0; k < 32; k += 16)
        mvout(&output[0][y][0][k], ACC(C_AT(y % YB, 0, k)), 16, 14);
  }
  fence();
}
