/* Intel's tile instructions by the names of its intrinsics.

   Where the compiler targets a CPU that has them, they are the instructions. Elsewhere they are
   emulated, so that kernels can be checked: what the hardware refuses (an unset or mismatched
   configuration) ends the kernel with an illegal instruction here too.
   Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBSSD and others.

   Tiles are numbered 0 to 7, each of at most 16 rows of 64 bytes. */
#ifndef TILES_H
#define TILES_H
#include <stdint.h>

/* What _tile_loadconfig reads: palette 1, then bytes per row and rows of each tile. */
struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

#if defined __AMX_TILE__ && defined __AMX_INT8__ && defined __AMX_BF16__
#include <immintrin.h>
#else
#include <string.h>

static struct tile_config tile_shapes;
static _Alignas(64) uint8_t tile_data[8][16][64];

static inline void tile_require(int holds) {
  if (!holds) __builtin_trap();
}

static inline void tile_require_tile(int tile) {
  tile_require(tile_shapes.palette == 1 && tile >= 0 && tile < 8 && tile_shapes.rows[tile]);
}

static inline void _tile_loadconfig(const void *from) {
  memcpy(&tile_shapes, from, sizeof tile_shapes);
  tile_require(tile_shapes.palette == 1 && tile_shapes.start_row == 0);
  for (int tile = 0; tile < 16; tile++) {
    int rows = tile_shapes.rows[tile], bytes = tile_shapes.row_bytes[tile];
    tile_require(rows <= 16 && bytes <= 64 && !rows == !bytes && (tile < 8 || !rows));
  }
  memset(tile_data, 0, sizeof tile_data);
}

static inline void _tile_release(void) { memset(&tile_shapes, 0, sizeof tile_shapes); }

static inline void _tile_zero(int tile) {
  tile_require_tile(tile);
  memset(tile_data[tile], 0, sizeof tile_data[tile]);
}

static inline void _tile_loadd(int tile, const void *from, long stride) {
  _tile_zero(tile);
  for (int row = 0; row < tile_shapes.rows[tile]; row++)
    memcpy(tile_data[tile][row], (const char *)from + row * stride, tile_shapes.row_bytes[tile]);
}

static inline void _tile_stream_loadd(int tile, const void *from, long stride) {
  _tile_loadd(tile, from, stride);
}

static inline void _tile_stored(int tile, void *to, long stride) {
  tile_require_tile(tile);
  for (int row = 0; row < tile_shapes.rows[tile]; row++)
    memcpy((char *)to + row * stride, tile_data[tile][row], tile_shapes.row_bytes[tile]);
}

static inline void tile_require_product(int c, int a, int b) {
  tile_require_tile(a), tile_require_tile(b), tile_require_tile(c);
  tile_require(c != a && c != b && a != b && tile_shapes.rows[c] == tile_shapes.rows[a] &&
               tile_shapes.row_bytes[c] == tile_shapes.row_bytes[b] &&
               tile_shapes.row_bytes[a] == 4 * tile_shapes.rows[b]);
}

static inline void _tile_dpbssd(int c, int a, int b) {
  tile_require_product(c, a, b);
  for (int m = 0; m < tile_shapes.rows[c]; m++)
    for (int n = 0; n < tile_shapes.row_bytes[c] / 4; n++) {
      int32_t sum;
      memcpy(&sum, tile_data[c][m] + 4 * n, 4);
      for (int k = 0; k < tile_shapes.row_bytes[a]; k++) {
        int left = (int8_t)tile_data[a][m][k], right = (int8_t)tile_data[b][k / 4][4 * n + k % 4];
        sum = (int32_t)((uint32_t)sum + (uint32_t)(left * right));
      }
      memcpy(tile_data[c][m] + 4 * n, &sum, 4);
    }
}

static inline float tile_bf16(const uint8_t *from) {
  uint16_t bits;
  memcpy(&bits, from, 2);
  uint32_t whole = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &whole, 4);
  return value;
}

static inline void _tile_dpbf16ps(int c, int a, int b) {
  tile_require_product(c, a, b);
  for (int m = 0; m < tile_shapes.rows[c]; m++)
    for (int n = 0; n < tile_shapes.row_bytes[c] / 4; n++) {
      float sum;
      memcpy(&sum, tile_data[c][m] + 4 * n, 4);
      for (int k = 0; k < tile_shapes.row_bytes[a] / 2; k++)
        sum += tile_bf16(tile_data[a][m] + 2 * k) *
               tile_bf16(tile_data[b][k / 2] + 4 * n + 2 * (k % 2));
      memcpy(tile_data[c][m] + 4 * n, &sum, 4);
    }
}
#endif
#endif
