#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int r = 0; r < 96; r += 16) {
    for (int c = 0; c < 128; c += 64) {
      const int slot = (c / 64 + 1) % 2;
      config_ld(0, 1.0f, 16, 2);
      mvin3(0, ACC(512 * (c / 64)), 64, 16);  // start from zero
      config_ld(128, 1.0f, 16, 0);
      config_ld(128, 1.0f, 16, 1);
      for (int d = 0; d < 128; d += 16) {
        // weights, then the rows they meet
        mvin2(&W[d][c], SPAD(32), 64, 16);
        mvin(&X[r][d], SPAD(0), 16, 16);
        for (int p = 0; p < 4; p++) {
          preload(SPAD(16 * p + 32), ACC(16 * p + 512 * (c / 64)) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
      }
      // Y of the previous iteration
      if (c > 0) {
        for (int p = 0; p < 64; p += 16) {
          mvout(&Y[r][c + p - 64], ACC(p + 512 * slot), 16, 16);
        }
      }
    }
    for (int p = 0; p < 64; p += 16) {
      mvout(&Y[r][p + 64], ACC(p + 512), 16, 16);
    }
  }
  fence();
}
