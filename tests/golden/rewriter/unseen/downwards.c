// Depth outermost: all sums of a panel stay in the accumulator, and tiles go downwards.
void kernel(const int8_t lhs[112][96], const int8_t rhs[96][144], int8_t dst[112][144]) {
  const int height = 112 / 16, width = 144 / 16, depth = 96 / 16;
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(96, 1.0f, 16, 0);
  config_ld(144, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(144);
  for (int n = width - 1; n >= 0; n--) {
    for (int m = 0; m < height; m++) mvin3(0, ACC(m * 16), 16, 16);
    for (int k = 0; k != depth; k++) {
      const uint32_t b = SPAD(1024 + (k & 1) * 16);
      mvin2(&rhs[16 * k][16 * n], b, 16, 16);
      for (int m = height; m-- > 0;) {
        if (m >= height) continue;
        const uint32_t a = SPAD((k % 2) * 512 + 16 * m);
        mvin(&lhs[16 * m][16 * k], a, 16, 16);
        preload(b, ACC(m * 16) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(a, NONE, 16, 16, 16, 16);
      }
    }
    for (int m = 0; m < height; m++) {
      mvout(&dst[16 * m][16 * n], ACC(m << 4), 16, 16);
    }
  }
  fence();
}
