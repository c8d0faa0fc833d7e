// y[t] = -W h[t] - b[t]; h[t + 1] = V h[t] + Z y[t]: one operation after the other, through memory.
void kernel(const float V[8][8], const float Z[8][4], const float W[4][8], const float b[3][4],
            float h[4][8], float y[3][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 1);
  config_ld(4, 1.0f, 4, 1);
  for (int b2 = 0; b2 < 8; b2 += 4) {
    mvin2(&h[0][b2], ACC(b2 + 9), 4, 1);
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
    for (int b2 = 0; b2 < 8; b2 += 4) {
      for (int c = 0; c < 8; c += 4) {
        preload(SPAD(2 * b2 + c + 4096), ACC(b2 + 5 * t + 14) | (c > 0 ? ACCUMULATE : 0), 4, 4, 4, 1);
        compute_preloaded(ACC(c + 5 * t + 9), NONE, 4, 1, 4, 1);
      }
    }
    for (int b2 = 0; b2 < 8; b2 += 4) {
      preload(SPAD(b2 + 4120), ACC(b2 + 5 * t + 14) | ACCUMULATE, 4, 4, 4, 1);
      compute_preloaded(ACC(0), NONE, 4, 1, 4, 1);
    }
    for (int b2 = 0; b2 < 8; b2 += 4) {
      mvout(&h[t + 1][b2], ACC(b2 + 5 * t + 14), 4, 1);
    }
    fence();
  }
  fence();
}
