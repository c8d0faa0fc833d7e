void kernel(const float Adyn[12][12], const float Bdyn[12][4], const float Kinf[4][12], const float d[4][4], float x[5][12], float u[4][4]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 40, 1);
  for (int b = 0; b < 12; b += 4) {
    mvin2(&Adyn[b][0], SPAD(21 * b), 12, 4);
  }
  config_ld(16, 1.0f, 4, 2);
  for (int b = 0; b < 12; b += 4) {
    mvin3(&Bdyn[b][0], SPAD(b + 252), 4, 4);
  }
  config_ld(48, -1.0f, 4, 2);
  mvin3(&Kinf[0][0], SPAD(264), 12, 4);
  config_ld(4, 1.0f, 4, 0);
  config_ld(4, -1.0f, 4, 2);
  config_st(4);
  for (int i = 0; i < 4; i++) {
    mvin(&x[i][0], SPAD(4096), 1, 4);
    mvin3(&d[i][0], ACC(0), 1, 4);
    for (int b = 0; b < 8; b += 4) {
      mvin(&x[i][b + 4], SPAD(b + 4100), 1, 4);
    }
    for (int b = 0; b < 12; b += 4) {
      preload(SPAD(b + 4096), ACC(0) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b + 264), NONE, 4, 4, 1, 4);
    }
    mvout(&u[i][0], ACC(0), 1, 4);
    for (int b = 0; b < 12; b += 4) {
      for (int c = 0; c < 12; c += 4) {
        preload(SPAD(c + 4096), ACC(b + 4) | (c > 0 ? ACCUMULATE : 0), 1, 4, 1, 4);
        compute_preloaded(SPAD(21 * b + 10 * c), NONE, 4, 4, 1, 4);
      }
    }
    preload(NONE, SPAD(4108), 1, 4, 1, 4);
    compute_preloaded(NONE, ACC(0), 1, 4, 1, 4);
    for (int b = 0; b < 12; b += 4) {
      preload(SPAD(4108), ACC(b + 4) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b + 252), NONE, 4, 4, 1, 4);
    }
    for (int b = 0; b < 12; b += 4) {
      mvout(&x[i + 1][b], ACC(b + 4), 1, 4);
    }
    fence();
  }
  fence();
}
