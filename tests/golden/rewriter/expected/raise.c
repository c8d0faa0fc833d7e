#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  config_ex(WEIGHT_STATIONARY, 0, 1, 0, 0);
  config_ld(128, 1.0f, 16, 0);
  config_ld(128, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(128);
  for (int i = 0; i < 96; i += 16) {
    for (int j = 0; j < 128; j += 64) {
      mvin3(0, ACC(0), 64, 16);
      for (int p = 0; p < 128; p += 16) {
        mvin(&X[i][p], SPAD(0), 16, 16);
        mvin2(&W[p][j], SPAD(4096), 64, 16);
        for (int jj = 0; jj < 64; jj += 16) {
          preload(SPAD(jj + 4096), ACC(jj) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }
      }
      mvout(&Y[i][j], ACC(0), 64, 16);
    }
  }
  fence();
}
