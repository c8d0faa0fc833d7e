#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  config_ld(128, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  for (int c = 0; c < 128; c += 64) {
    // W for all of loop r
    for (int d = 0; d < 128; d += 16) {
      // weights, then the rows they meet
      mvin2(&W[d][c], SPAD(4 * d), 64, 16);
    }
    // X for all of loop d
    for (int d = 0; d < 128; d += 64) {
      mvin(&X[0][d], SPAD(d + 4096), 64, 16);
    }
    for (int r = 0; r < 96; r += 16) {
      const int slot = (r / 16 + 1) % 3;
      const int slot2 = r / 16 % 2;
      const int slot3 = r / 16 % 3;
      // X for the next iteration
      if (r + 16 < 96) {
        // X for all of loop d
        for (int d = 0; d < 128; d += 64) {
          mvin(&X[r + 16][d], SPAD(d + 4096 * slot + 4096), 64, 16);
        }
      }
      for (int d = 0; d < 128; d += 16) {
        for (int p = 0; p < 4; p++) {
          preload(SPAD(4 * d + 16 * p), ACC(16 * p + 512 * slot2) | (d > 0 ? ACCUMULATE : 0), 16, 16, 16, 16);
          compute_preloaded(SPAD(d + 4096 * slot3 + 4096), NONE, 16, 16, 16, 16);
        }
      }
      mvout(&Y[r][c], ACC(512 * slot2), 64, 16);
    }
  }
  fence();
}
