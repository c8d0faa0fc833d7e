#include "gemmini.h"
#define WIDTH 64

// A product with names and an order of statements of its own.
void kernel(const int8_t X[96][128], const int8_t W[128][128], int8_t Y[96][128]) {
  const uint64_t spad = BLOCK(SPAD(0), 64, 16);
  const uint64_t spad2 = BLOCK(SPAD(0), 16, 16);
  const uint64_t acc = BLOCK(ACC(0), 16, 16);
  const uint64_t none = BLOCK(NONE, 16, 16);
  config_st(128);
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  for (int r = 0; r < 96; r += 16) {
    for (int c = 0; c < 128; c += 64) {
      config_ld(0, 1.0f, 16, 2);
      config_ld(128, 1.0f, 16, 0);
      config_ld(128, 1.0f, 16, 1);
      for (int d = 0; d < 128; d += 16) {
        const uint64_t word = acc + 128 | (d > 0 ? ACCUMULATE : 0);
        // weights, then the rows they meet
        mvin2_block(&W[d][c], spad + 32);
        mvin_block(&X[r][d], spad2);
        preload_blocks(spad2 + 32, word);
        compute_preloaded_blocks(spad2, none);
        preload_blocks(spad2 + 48, word + 16);
        compute_preloaded_blocks(spad2, none);
        preload_blocks(spad2 + 64, word + 32);
        compute_preloaded_blocks(spad2, none);
        preload_blocks(spad2 + 80, word + 48);
        compute_preloaded_blocks(spad2, none);
      }
      for (int p = 0; p < 64; p += 16) {
        mvout_block(&Y[r][c + p], acc + p + 128);
      }
    }
  }
  fence();
}
