#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  config_ld(128, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  for (int r = 0; r < 96; r += 16) {
    for (int c = 0; c < 128; c += 64) {
      mvin3(0, ACC(128), 64, 16);  // start from zero
      // W for all of loop d
      for (int d = 0; d < 128; d += 16) {
        // weights, then the rows they meet
        mvin2(&W[d][c], SPAD(4 * d), 64, 16);
      }
      // X for all of loop d
      for (int d = 0; d < 128; d += 64) {
        mvin(&X[r][d], SPAD(d + 4096), 64, 16);
      }
      for (int p = 0; p < 4; p++) {
        for (int d = 0; d < 128; d += 16) {
          preload(SPAD(4 * d + 16 * p), ACC(16 * p + 128) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(d + 4096), NONE, 16, 16, 16, 16);
        }
      }
      mvout(&Y[r][c], ACC(128), 64, 16);
    }
  }
  fence();
}
