// y[t] = -W h[t] - b[t]; h[t + 1] = V h[t] + Z y[t]: one operation after the other, through memory.
void kernel(const float V[8][8], const float Z[8][4], const float W[4][8], const float b[3][4],
            float h[4][8], float y[3][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(4, 1.0f, 4, 0);
  for (int b2 = 0; b2 < 8; b2 += 4) {
    mvin(&h[0][b2], SPAD(b2 + 4096), 1, 4);
  }
  config_ld(32, 1.0f, 4, 1);
  for (int b3 = 0; b3 < 8; b3 += 4) {
    mvin2(&V[b3][0], SPAD(2 * b3), 8, 4);
  }
  config_ld(32, -1.0f, 4, 2);
  mvin3(&W[0][0], SPAD(16), 8, 4);
  config_ld(16, 1.0f, 4, 2);
  for (int b3 = 0; b3 < 8; b3 += 4) {
    mvin3(&Z[b3][0], SPAD(b3 + 24), 4, 4);
  }
  config_ld(4, -1.0f, 4, 2);
  config_st(4);
  for (int t = 0; t < 3; t++) {
    mvin3(&b[t][0], ACC(0), 1, 4);
    for (int b3 = 0; b3 < 8; b3 += 4) {
      preload(SPAD(b3 + 4096), ACC(0) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b3 + 16), NONE, 4, 4, 1, 4);
    }
    mvout(&y[t][0], ACC(0), 1, 4);
    for (int b3 = 0; b3 < 8; b3 += 4) {
      for (int c = 0; c < 8; c += 4) {
        preload(SPAD(c + 4096), ACC(b3 + 4) | (c > 0 ? ACCUMULATE : 0), 1, 4, 1, 4);
        compute_preloaded(SPAD(2 * b3 + c), NONE, 4, 4, 1, 4);
      }
    }
    for (int b3 = 0; b3 < 8; b3 += 4) {
      preload(ACC(0), ACC(b3 + 4) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b3 + 24), NONE, 4, 4, 1, 4);
    }
    for (int b3 = 0; b3 < 8; b3 += 4) {
      mvout(&h[t + 1][b3], ACC(b3 + 4), 1, 4);
    }
    for (int b3 = 0; b3 < 8; b3 += 4) {
      preload(NONE, SPAD(b3 + 4096), 1, 4, 1, 4);
      compute_preloaded(NONE, ACC(b3 + 4), 1, 4, 1, 4);
    }
  }
  fence();
}
