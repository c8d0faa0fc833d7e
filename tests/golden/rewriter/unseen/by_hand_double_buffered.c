// Somebody began to tune: two slots for the left operand, the next tile loaded early.
static const uint32_t slots[2] = {SPAD(0), SPAD(4096)};

void kernel(const int8_t A[][256], const int8_t B[][128], int8_t C[][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_st(128);
  int turn = 0;
  for (int i = 0; i < 192; i += 16) {
    for (int j = 0; j < 128; j += 64) {
      for (int k = 0; k < 256; k += 16, turn ^= 1) {
        mvin(A[i] + k, turn ? SPAD(4096) : SPAD(0), 16, 16);
        mvin2(B[k] + j, SPAD(8192), 64, 16);
        for (int n = 0; n < 4; n++) {
          uint32_t to = ACC(16 * n);
          if (k != 0) to |= ACCUMULATE;
          preload(SPAD(8192) + 16 * n, to, 16, 16, 16, 16);
          compute_preloaded(SPAD(turn << 12), NONE, 16, 16, 16, 16);
        }
      }
      mvout(C[i] + j, ACC(0), 64, 16);
    }
  }
  fence();
}
