// One form of the load for everything, set anew before each.
void kernel(const int8_t A[48][64], const int8_t B[64][32], int8_t C[48][32]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  // A for all of loop j
  config_ld(64, 1.0f, 16, 0);
  mvin(&A[0][0], SPAD(4096), 64, 16);
  config_ld(32, 1.0f, 16, 1);
  // B for all of loop i
  for (int k = 0; k < 64; k += 16) {
    // B for all of loop i
    mvin2(&B[k][0], SPAD(2 * k), 32, 16);
  }
  config_st(32);
  for (int i = 0; i < 48; i += 16) {
    const int slot = (i / 16 + 1) % 2;
    const int slot2 = i / 16 % 2;
    // A for the next iteration
    if (i + 16 < 48) {
      // A for all of loop j
      mvin(&A[i + 16][0], SPAD(4096 * slot + 4096), 64, 16);
    }
    for (int j = 0; j < 32; j += 16) {
      for (int k = 0; k < 64; k += 16) {
        preload(SPAD(j + 2 * k), ACC(0) | (k != 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
        compute_preloaded(SPAD(k + 4096 * slot2 + 4096), NONE, 16, 16, 16, 16);
      }
      mvout(&C[i][j], ACC(0), 16, 16);
    }
  }
  fence();
}
