// y[t] = -W h[t] - b[t]; h[t + 1] = V h[t] + Z y[t]: one operation after the other, through memory.
void kernel(const float V[8][8], const float Z[8][4], const float W[4][8], const float b[3][4],
            float h[4][8], float y[3][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 1);
  config_ld(4, 1.0f, 4, 1);
  for (int b2 = 0; b2 < 2; b2++) {
    mvin2(&h[0][4 * b2], ACC(b2 + 3), 4, 1);
  }
  config_ld(32, 1.0f, 4, 2);
  for (int b3 = 0; b3 < 8; b3 += 4) {
    mvin3(&V[b3][0], SPAD(2 * b3 + 4096), 8, 4);
  }
  mvin3(&W[0][0], SPAD(4112), 8, 4);
  config_ld(16, 1.0f, 4, 2);
  for (int b3 = 0; b3 < 8; b3 += 4) {
    mvin3(&Z[b3][0], SPAD(b3 + 4120), 4, 4);
  }
  config_ld(4, -1.0f, 4, 0);
  config_st(4);
  for (int t = 0; t < 3; t++) {
    mvin(&h[t][0], SPAD(0), 4, 1);
    mvin(&b[t][0], ACC(0), 4, 1);
    preload(SPAD(4112), ACC(0) | ACCUMULATE, 4, 4, 4, 1);
    compute_preloaded(SPAD(0), NONE, 4, 1, 4, 1);
    mvin(&h[t][4], SPAD(1), 4, 1);
    preload(SPAD(4116), ACC(0) | ACCUMULATE, 4, 4, 4, 1);
    compute_preloaded(SPAD(1), NONE, 4, 1, 4, 1);
    mvout(&y[t][0], ACC(0), 4, 1);
    for (int b4 = 0; b4 < 2; b4++) {
      for (int c = 0; c < 2; c++) {
        preload(SPAD(8 * b4 + 4 * c + 4096), ACC(b4 + 2 * t + 5) | (c > 0 ? ACCUMULATE : 0), 4, 4, 4, 1);
        compute_preloaded(ACC(c + 2 * t + 3), NONE, 4, 1, 4, 1);
      }
    }
    for (int b4 = 0; b4 < 2; b4++) {
      preload(SPAD(4 * b4 + 4120), ACC(b4 + 2 * t + 5) | ACCUMULATE, 4, 4, 4, 1);
      compute_preloaded(ACC(0), NONE, 4, 1, 4, 1);
    }
    for (int b4 = 0; b4 < 2; b4++) {
      mvout(&h[t + 1][4 * b4], ACC(b4 + 2 * t + 5), 4, 1);
    }
    fence();
  }
  fence();
}
