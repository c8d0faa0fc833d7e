#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  config_ld(128, 1.0f, 32, 0);
  config_ld(128, 1.0f, 16, 1);
  for (int r = 0; r < 96; r += 32) {
    // X for all of loop c
    for (int rr = 0; rr < 32; rr += 16) {
      // X for all of loop c
      for (int d = 0; d < 128; d += 64) {
        mvin(&X[r + rr][d], SPAD(2 * d + rr + 4096), 64, 16);
      }
    }
    for (int c = 0; c < 128; c += 64) {
      for (int rr = 0; rr < 32; rr += 16) {
        mvin3(0, ACC(4 * rr), 64, 16);  // start from zero
      }
      // W for all of loop d
      for (int d = 0; d < 128; d += 16) {
        // weights, then the rows they meet
        mvin2(&W[d][c], SPAD(4 * d), 64, 16);
      }
      for (int d = 0; d < 80; d += 16) {
        for (int p = 0; p < 4; p++) {
          for (int rr = 0; rr < 32; rr += 16) {
            preload(SPAD(4 * d + 16 * p), ACC(16 * p + 4 * rr) | ACCUMULATE, 16, 16, 16, 16);
            compute_preloaded(SPAD(2 * d + rr + 4096), NONE, 16, 16, 16, 16);
          }
        }
      }
      for (int rr = 0; rr < 32; rr += 16) {
        for (int d = 80; d < 128; d += 16) {
          for (int p = 0; p < 4; p++) {
            preload(SPAD(4 * d + 16 * p), ACC(16 * p + 4 * rr) | ACCUMULATE, 16, 16, 16, 16);
            compute_preloaded(SPAD(2 * d + rr + 4096), NONE, 16, 16, 16, 16);
          }
        }
        mvout(&Y[r + rr][c], ACC(4 * rr), 64, 16);
      }
    }
  }
  fence();
}
