void kernel(const float AmBKt[12][12], const float BdynT[4][12], const float KinfT[12][4], const float Quu_inv[4][4], const float q[9][12], const float r[9][4], float p[10][12], float d[9][4]) {
  float Bp[4];
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(48, 1.0f, 4, 1);
  for (int b = 0; b < 12; b += 4) {
    mvin2(&AmBKt[b][0], SPAD(3 * b), 12, 4);
  }
  mvin2(&BdynT[0][0], SPAD(36), 12, 4);
  config_ld(16, -1.0f, 4, 2);
  for (int b = 0; b < 12; b += 4) {
    mvin3(&KinfT[b][0], SPAD(b + 48), 4, 4);
  }
  config_ld(16, 1.0f, 4, 2);
  mvin3(&Quu_inv[0][0], SPAD(60), 4, 4);
  config_ld(4, 1.0f, 4, 0);
  config_st(4);
  for (int i = 0; i < 9; i++) {
    mvin(&p[9 - i][0], SPAD(4096), 1, 4);
    mvin(&r[8 - i][0], ACC(0), 1, 4);
    for (int b2 = 0; b2 < 8; b2 += 4) {
      mvin(&p[9 - i][b2 + 4], SPAD(b2 + 4100), 1, 4);
    }
    for (int b2 = 0; b2 < 12; b2 += 4) {
      mvin(&q[8 - i][b2], ACC(b2 + 4), 1, 4);
    }
    mvin(&r[8 - i][0], SPAD(4108), 1, 4);
    for (int b2 = 0; b2 < 12; b2 += 4) {
      preload(SPAD(b2 + 4096), ACC(0) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b2 + 36), NONE, 4, 4, 1, 4);
    }
    mvout(&Bp[0], ACC(0), 1, 4);
    preload(NONE, SPAD(4112), 1, 4, 1, 4);
    compute_preloaded(NONE, ACC(0), 1, 4, 1, 4);
    preload(SPAD(4112), ACC(16), 1, 4, 1, 4);
    compute_preloaded(SPAD(60), NONE, 4, 4, 1, 4);
    mvout(&d[8 - i][0], ACC(16), 1, 4);
    for (int b2 = 0; b2 < 12; b2 += 4) {
      for (int c = 0; c < 12; c += 4) {
        preload(SPAD(c + 4096), ACC(b2 + 4) | ACCUMULATE, 1, 4, 1, 4);
        compute_preloaded(SPAD(3 * b2 + c), NONE, 4, 4, 1, 4);
      }
    }
    for (int b2 = 0; b2 < 12; b2 += 4) {
      preload(SPAD(4108), ACC(b2 + 4) | ACCUMULATE, 1, 4, 1, 4);
      compute_preloaded(SPAD(b2 + 48), NONE, 4, 4, 1, 4);
    }
    for (int b2 = 0; b2 < 12; b2 += 4) {
      mvout(&p[8 - i][b2], ACC(b2 + 4), 1, 4);
    }
    fence();
  }
  fence();
}
