// y[t] = -W h[t] - b[t]; h[t + 1] = V h[t] + Z y[t]: one operation after the other, through memory.
void kernel(const float V[8][8], const float Z[8][4], const float W[4][8], const float b[3][4],
            float h[4][8], float y[3][4]) {
  float part[8];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 1);
  config_st(4);
  for (int t = 0; t < 3; t++) {
    config_ld(32, 1.0f, 4, 0);
    config_ld(4, 1.0f, 4, 1);
    for (int c = 0; c < 8; c += 4) {
      mvin(&W[0][c], SPAD(0), 4, 4);
      mvin2(&h[t][c], SPAD(4), 4, 1);
      preload(SPAD(0), ACC(0) | (c > 0 ? ACCUMULATE : 0), 4, 4, 4, 1);
      compute_preloaded(SPAD(4), NONE, 4, 1, 4, 1);
    }
    mvout(&y[t][0], ACC(0), 4, 1);
    fence();
    for (int e = 0; e < 4; e++) {
      y[t][e] = -y[t][e] - b[t][e];
    }
    for (int r = 0; r < 8; r += 4) {
      for (int c = 0; c < 8; c += 4) {
        mvin(&V[r][c], SPAD(0), 4, 4);
        mvin2(&h[t][c], SPAD(4), 4, 1);
        preload(SPAD(0), ACC(0) | (c > 0 ? ACCUMULATE : 0), 4, 4, 4, 1);
        compute_preloaded(SPAD(4), NONE, 4, 1, 4, 1);
      }
      mvout(&h[t + 1][r], ACC(0), 4, 1);
    }
    config_ld(16, 1.0f, 4, 0);
    for (int r = 0; r < 8; r += 4) {
      mvin(&Z[r][0], SPAD(0), 4, 4);
      mvin2(&y[t][0], SPAD(4), 4, 1);
      preload(SPAD(0), ACC(0), 4, 4, 4, 1);
      compute_preloaded(SPAD(4), NONE, 4, 1, 4, 1);
      mvout(&part[r], ACC(0), 4, 1);
    }
    fence();
    for (int e = 0; e < 8; e++) {
      h[t + 1][e] = h[t + 1][e] + part[e];
    }
  }
  fence();
}
