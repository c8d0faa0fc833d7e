/* tables of tile offsets built at run time, a queue of slots, do-while, comma operators */
void kernel(const int8_t A[128][192], const int8_t B[192][128], int8_t C[128][128]) {
  uint32_t a_at[12], b_at[12];
  for (int k = 0; k < 12; k++) a_at[k] = 16u * k, b_at[k] = 0x2000u + 64u * k;
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0), config_st(128);
  config_ld(192, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  uint32_t done = 0;
  for (int j = 0; j < 128; j += 64) {
    for (int k = 0; k < 12; k++) mvin2(&B[16 * k][j], b_at[k], 64, 16);
    for (int i = 0; i < 128; i += 16) {
      int k = 0;
      do {
        mvin(&A[i][16 * k], a_at[k], 64, 16);
        k += 4;
      } while (k < 12);
      const uint32_t acc = ACC(done % 2 == 0 ? 0 : 64);
      for (int q = 0, off = 0; q < 4; q++, off += 16)
        for (k = 0; k < 12; k++) {
          preload(b_at[k] + off, k ? (acc + off) | ACCUMULATE : (acc + off), 16, 16, 16, 16);
          compute_preloaded(a_at[k], NONE, 16, 16, 16, 16);
        }
      mvout(&C[i][j], acc, 64, 16);
      done++;
    }
  }
  fence();
}
