#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  config_ld(128, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  mvin3(0, ACC(0), 64, 16);  // start from zero
  for (int rc = 0; rc < 12; rc++) {
    const int slot = (rc + 1) % 2;
    const int slot2 = rc % 2;
    // Y for the next iteration
    if (rc + 1 < 12) {
      mvin3(0, ACC(512 * slot), 64, 16);  // start from zero
    }
    for (int d = 0; d < 128; d += 16) {
      // weights, then the rows they meet
      mvin2(&W[d][64 * slot2], SPAD(32), 64, 16);
      mvin(&X[16 * (rc / 2)][d], SPAD(0), 16, 16);
      for (int p = 0; p < 4; p++) {
        preload(SPAD(16 * p + 32), ACC(16 * p + 512 * slot2) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }
    }
    for (int p = 0; p < 64; p += 16) {
      mvout(&Y[16 * (rc / 2)][p + 64 * slot2], ACC(p + 512 * slot2), 16, 16);
    }
  }
  fence();
}
