/* A batch of small products; settings inside the loops, and tiles skipped by continue and break. */
void kernel(const int8_t q[4][48][64], const int8_t kt[4][64][48], int8_t scores[4][48][48]) {
  for (int batch = 0; batch < 4; batch++) {
    config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
    for (int ij = 0; ij < 3 * 4; ij++) {
      const int i = ij / 4, j = ij % 4;
      if (j == 3) continue;
      for (int k = 0; k < 4; k++) {
        config_ld(64, 1.0f, 16, 0);
        mvin(&q[batch][i * 16][k * 16], SPAD(0), 16, 16);
        config_ld(48, 1.0f, 16, 0);
        mvin(&kt[batch][k * 16][j * 16], SPAD(16), 16, 16);
        preload(SPAD(16), ACC(0) | (k > 0) * ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
      config_st(48);
      mvout(&scores[batch][i * 16][j * 16], ACC(0), 16, 16);
      fence();
    }
  }
}
