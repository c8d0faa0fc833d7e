// workload: host-c:conv-1x16x24x48x64-k3s1
// A 3x3 convolution: the register tile, what of the channels is inside, and the order of the loops.
TUNE(XR, 1, 2, 3, 4, 6, 8)         // pixels of the register tile
TUNE(KR, 8, 16, 32, 64)            // filters of the register tile
TUNE(CC, 6, 12, 16, 24, 48)        // channels of a block
TUNE(YB, 1, 2, 4, 8, 16)           // lines of a block
TUNE(FILTERS_OUTSIDE, 0, 1)
TUNE(UNROLL_C, 1, 2, 4)
TUNE(UNROLL_S, 1, 3)
TUNE_REQUIRE(XR * KR <= 256 && CC % UNROLL_C == 0)

static inline void tile(const float input[1][18][26][48], const float weights[3][3][48][64],
                        float output[1][16][24][64], int y, int x, int k, int c0) {
  float sum[XR][KR];
  for (int p = 0; p < XR; p++)
    for (int q = 0; q < KR; q++) sum[p][q] = c0 ? output[0][y][x + p][k + q] : 0.0f;
  for (int r = 0; r < 3; r++) {
#if UNROLL_S == 1
#pragma GCC unroll 1
#elif UNROLL_S == 3
#pragma GCC unroll 3
#endif
    for (int s = 0; s < 3; s++) {
#if UNROLL_C == 1
#pragma GCC unroll 1
#elif UNROLL_C == 2
#pragma GCC unroll 2
#elif UNROLL_C == 4
#pragma GCC unroll 4
#endif
      for (int c = c0; c < c0 + CC; c++)
        for (int p = 0; p < XR; p++)
          for (int q = 0; q < KR; q++)
            sum[p][q] += input[0][y + r][x + p + s][c] * weights[r][s][c][k + q];
    }
  }
  for (int p = 0; p < XR; p++)
    for (int q = 0; q < KR; q++) output[0][y][x + p][k + q] = sum[p][q];
}

void kernel(const float input[1][18][26][48], const float weights[3][3][48][64],
            float output[1][16][24][64]) {
  for (int y0 = 0; y0 < 16; y0 += YB)
    for (int c0 = 0; c0 < 48; c0 += CC) {
      if (FILTERS_OUTSIDE) {
        for (int k = 0; k < 64; k += KR)
          for (int y = y0; y < y0 + YB; y++)
            for (int x = 0; x < 24; x += XR) tile(input, weights, output, y, x, k, c0);
      } else {
        for (int y = y0; y < y0 + YB; y++)
          for (int x = 0; x < 24; x += XR)
            for (int k = 0; k < 64; k += KR) tile(input, weights, output, y, x, k, c0);
      }
    }
}
