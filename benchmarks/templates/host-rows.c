// workload: host-c:layernorm-64x384
// Rows at once, partial sums, the formula of the variance, and unrolled loops.
TUNE(ROWS, 1, 2, 4, 8)               // rows of a block
TUNE(LANES, 1, 2, 3, 4, 8, 16, 24, 32) // partial sums of a row
TUNE(ONE_PASS, 0, 1)                 // mean and squares in one pass
TUNE(RECIPROCAL, 0, 1)               // multiply instead of divide
TUNE(SPLIT, 1, 2, 4)                 // parts of a row that are written one after the other
TUNE(UNROLL_SUM, 1, 2, 4, 8)
TUNE(UNROLL_OUT, 1, 2, 4)
TUNE(AHEAD, 0, 1, 2)                 // rows that are fetched ahead
TUNE(COPY, 0, 1)                     // keep the row in a local array
TUNE_REQUIRE(LANES * UNROLL_SUM <= 128 && 384 % (LANES * UNROLL_SUM) == 0)
#include <math.h>

void kernel(const float X[64][384], const float gain[384], const float bias[384], float Y[64][384]) {
  for (int r0 = 0; r0 < 64; r0 += ROWS) {
    float mean[ROWS], factor[ROWS], row[ROWS][384];
    for (int r = 0; r < ROWS; r++) {
      const float *x = X[r0 + r];
      if (AHEAD && r0 + r + AHEAD < 64)
        for (int c = 0; c < 384; c += 16) __builtin_prefetch(&X[r0 + r + AHEAD][c]);
      float sum[LANES], squares[LANES];
      for (int l = 0; l < LANES; l++) sum[l] = squares[l] = 0.0f;
#if UNROLL_SUM == 1
#pragma GCC unroll 1
#elif UNROLL_SUM == 2
#pragma GCC unroll 2
#elif UNROLL_SUM == 4
#pragma GCC unroll 4
#elif UNROLL_SUM == 8
#pragma GCC unroll 8
#endif
      for (int c = 0; c < 384; c += LANES)
        for (int l = 0; l < LANES; l++) {
          const float v = x[c + l];
          if (COPY) row[r][c + l] = v;
          sum[l] += v;
          if (ONE_PASS) squares[l] += v * v;
        }
      float total = 0.0f, spread = 0.0f;
      for (int l = 0; l < LANES; l++) total += sum[l];
      total /= 384.0f;
      if (!ONE_PASS) {
#if UNROLL_SUM == 1
#pragma GCC unroll 1
#elif UNROLL_SUM == 2
#pragma GCC unroll 2
#elif UNROLL_SUM == 4
#pragma GCC unroll 4
#elif UNROLL_SUM == 8
#pragma GCC unroll 8
#endif
        for (int c = 0; c < 384; c += LANES)
          for (int l = 0; l < LANES; l++) {
            const float v = (COPY ? row[r][c + l] : x[c + l]) - total;
            squares[l] += v * v;
          }
      }
      for (int l = 0; l < LANES; l++) spread += squares[l];
      spread = spread / 384.0f - (ONE_PASS ? total * total : 0.0f);
      spread = sqrtf(spread + 1e-05f);
      mean[r] = total;
      factor[r] = RECIPROCAL ? 1.0f / spread : spread;
    }
    for (int part = 0; part < SPLIT; part++)
      for (int r = 0; r < ROWS; r++) {
#if UNROLL_OUT == 1
#pragma GCC unroll 1
#elif UNROLL_OUT == 2
#pragma GCC unroll 2
#elif UNROLL_OUT == 4
#pragma GCC unroll 4
#endif
        for (int c = part * (384 / SPLIT); c < (part + 1) * (384 / SPLIT); c++) {
          const float v = (COPY ? row[r][c] : X[r0 + r][c]) - mean[r];
          Y[r0 + r][c] = (RECIPROCAL ? v * factor[r] : v / factor[r]) * gain[c] + bias[c];
        }
      }
  }
}
