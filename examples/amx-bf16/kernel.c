// The starting kernel: correct, but slow. Replace it with your own kernel
// of the same name, with the parameters in the order of workload.toml.
#include "tiles.h"

/* tile 0: sums, tile 1: rows of A, tile 2: packed rows of B */
static const struct tile_config config = {
  .palette = 1,
  .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
  .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

void kernel(const uint16_t A[256][256], const uint16_t B[256][256], float C[256][256]) {
  _tile_loadconfig(&config);
  for (int i = 0; i < 256; i += 16) {
    for (int j = 0; j < 256; j += 16) {
      _tile_zero(0);
      for (int k = 0; k < 256; k += 32) {
        _tile_loadd(1, &A[i][k], 512);
        uint16_t packed[16][16][2];
        for (int r = 0; r < 32; r++)
          for (int c = 0; c < 16; c++)
            packed[r / 2][c][r % 2] = B[k + r][j + c];
        _tile_loadd(2, packed, 64);
        _tile_dpbf16ps(0, 1, 2);
      }
      _tile_stored(0, &C[i][j], 1024);
    }
  }
  _tile_release();
}
