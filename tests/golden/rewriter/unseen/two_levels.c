// Blocks of 64x64x64, and 16x16x16 tiles in each of them; one result tile after the other.
void kernel(const int8_t left[192][256], const int8_t right[256][128], int8_t result[192][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(256, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(128);
  for (int bi = 0; bi < 3; bi++)
    for (int bj = 0; bj < 2; bj++) {
      for (int ti = 0; ti < 4; ti++) mvin3(0, ACC(64 * ti), 64, 16);
      for (int bk = 0; bk < 4; bk++) {
        for (int ti = 0; ti < 4; ti++)
          mvin(&left[64 * bi + 16 * ti][64 * bk], SPAD(64 * ti), 64, 16);
        for (int tk = 0; tk < 4; tk++)
          mvin2(&right[64 * bk + 16 * tk][64 * bj], SPAD(256 + 64 * tk), 64, 16);
        for (int ti = 0; ti < 4; ti++)
          for (int tj = 0; tj < 4; tj++)
            for (int tk = 0; tk < 4; tk++) {
              preload(SPAD(256 + 64 * tk + 16 * tj), ACC(64 * ti + 16 * tj) | ACCUMULATE, 16, 16,
                      16, 16);
              compute_preloaded(SPAD(64 * ti + 16 * tk), NONE, 16, 16, 16, 16);
            }
      }
      for (int ti = 0; ti < 4; ti++)
        mvout(&result[64 * bi + 16 * ti][64 * bj], ACC(64 * ti), 64, 16);
    }
  fence();
}
