#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  config_ld(128, 1.0f, 16, 1);
  config_ld(128, 1.0f, 16, 0);
  config_st(128);
  // weights, then the rows they meet
  mvin2(&W[0][0], SPAD(0), 64, 16);
  for (int r = 0; r < 96; r += 16) {
    for (int c = 0; c < 128; c += 64) {
      mvin3(0, ACC(128), 64, 16);  // start from zero
      for (int d = 0; d < 128; d += 16) {
        const int slot = (d / 16 + 1) % 8;
        const int slot2 = (c / 64 + (d / 16 + 1) / 8) % 2;
        const int slot3 = slot % 2;
        const int slot4 = d / 16 % 2;
        // W for the next iteration
        if (8 * (c / 64) + d / 16 + 16 * (r / 16) + 1 < 96) {
          // weights, then the rows they meet
          mvin2(&W[16 * slot][64 * slot2], SPAD(4096 * slot3), 64, 16);
        }
        mvin(&X[r][d], SPAD(8192), 16, 16);
        for (int p = 0; p < 4; p++) {
          preload(SPAD(16 * p + 4096 * slot4), ACC(16 * p + 128) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(8192), NONE, 16, 16, 16, 16);
        }
      }
      for (int p = 0; p < 64; p += 16) {
        mvout(&Y[r][c + p], ACC(p + 128), 16, 16);
      }
    }
  }
  fence();
}
