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
    // X for all of loop c
    for (int d = 0; d < 128; d += 64) {
      mvin(&X[r][d], SPAD(d), 64, 16);
    }
    for (int c = 0; c < 128; c += 64) {
      mvin3(0, ACC(128), 64, 16);  // start from zero
      // weights, then the rows they meet
      mvin2(&W[0][c], SPAD(4096), 64, 16);
      for (int d = 0; d < 128; d += 16) {
        const int slot = (d / 16 + 1) % 2;
        const int slot2 = d / 16 % 2;
        for (int p = 0; p < 4; p++) {
          if (p == 2) {
            // W for the next iteration
            if (d + 16 < 128) {
              // weights, then the rows they meet
              mvin2(&W[d + 16][c], SPAD(4096 * slot + 4096), 64, 16);
            }
          }
          preload(SPAD(16 * p + 4096 * slot2 + 4096), ACC(16 * p + 128) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(d), NONE, 16, 16, 16, 16);
        }
      }
      mvout(&Y[r][c], ACC(128), 64, 16);
    }
  }
  fence();
}
