// A straightforward first version: one 16x16 tile of C at a time, B packed again for each tile.
#include "tiles.h"

/* tile 0: sums, tile 1: rows of A, tile 2: packed rows of B */
static const struct tile_config config = {
  .palette = 1,
  .row_bytes = {64, 64, 64},
  .rows = {16, 16, 16},
};

void kernel(const int8_t A[128][192], const int8_t B[192][64], const int32_t bias[64],
            int32_t C[128][64]) {
  _tile_loadconfig(&config);
  for (int i = 0; i < 128; i += 16) {
    for (int j = 0; j < 64; j += 16) {
      _tile_zero(0);
      for (int k = 0; k < 192; k += 64) {
        // four neighbouring rows of B become one packed row
        int8_t packed[16][16][4];
        for (int r = 0; r < 64; r++)
          for (int c = 0; c < 16; c++) packed[r / 4][c][r % 4] = B[k + r][j + c];
        _tile_loadd(1, &A[i][k], 192);
        _tile_loadd(2, packed, 64);
        _tile_dpbssd(0, 1, 2);
      }
      int32_t sums[16][16];
      _tile_stored(0, sums, 64);
      for (int r = 0; r < 16; r++)
        for (int c = 0; c < 16; c++) {
          int32_t sum = sums[r][c] + bias[j + c];
          C[i + r][j + c] = sum > 0 ? sum : 0;
        }
    }
  }
  _tile_release();
}
