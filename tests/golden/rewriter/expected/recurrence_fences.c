// y[t] = -W h[t] - b[t]; h[t + 1] = V h[t] + Z y[t]: one operation after the other, through memory.
void kernel(const float V[8][8], const float Z[8][4], const float W[4][8], const float b[3][4],
            float h[4][8], float y[3][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_st(4);
  config_ld(32, 1.0f, 4, 0);
  config_ld(16, 1.0f, 4, 1);
  for (int t = 0; t < 3; t++) {
    config_ld(32, -1.0f, 4, 2);
    mvin3(&W[0][0], SPAD(0), 4, 4);
    config_ld(4, 1.0f, 4, 2);
    mvin3(&h[t][0], SPAD(4096), 1, 4);
    config_ld(4, -1.0f, 4, 2);
    mvin3(&b[t][0], ACC(0), 1, 4);
    preload(SPAD(4096), ACC(0) | ACCUMULATE, 1, 4, 1, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 1, 4);
    config_ld(32, -1.0f, 4, 2);
    mvin3(&W[0][4], SPAD(4), 4, 4);
    config_ld(4, 1.0f, 4, 2);
    mvin3(&h[t][4], SPAD(4100), 1, 4);
    preload(SPAD(4100), ACC(0) | ACCUMULATE, 1, 4, 1, 4);
    compute_preloaded(SPAD(4), NONE, 4, 4, 1, 4);
    mvout(&y[t][0], ACC(0), 1, 4);
    for (int b2 = 0; b2 < 8; b2 += 4) {
      for (int c = 0; c < 8; c += 4) {
        mvin(&V[b2][c], SPAD(2 * b2 + c + 8), 4, 4);
        preload(SPAD(c + 4096), ACC(b2 + 4) | (c > 0 ? ACCUMULATE : 0), 1, 4, 1, 4);
        compute_preloaded(SPAD(2 * b2 + c + 8), NONE, 4, 4, 1, 4);
      }
    }
    for (int b2 = 0; b2 < 8; b2 += 4) {
      mvin2(&Z[b2][0], SPAD(b2 + 24), 4, 4);
      preload(ACC(0), ACC(b2 + 4) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b2 + 24), NONE, 4, 4, 1, 4);
    }
    for (int b2 = 0; b2 < 8; b2 += 4) {
      mvout(&h[t + 1][b2], ACC(b2 + 4), 1, 4);
    }
    fence();
  }
  fence();
}
