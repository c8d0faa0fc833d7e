/* Intel's tile instructions by the names of its intrinsics.

   With TILES_HARDWARE they are the instructions. Elsewhere they are emulated, so that kernels can be
   checked: what the hardware refuses (an unset or mismatched configuration) ends the kernel with an
   illegal instruction here too. With TILES_COUNTED nothing is computed or stored: the bytes that
   loads would read are added up.
   Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBSSD and others.

   Tiles are numbered 0 to 7, each of at most 16 rows of 64 bytes; numbers are literals. */
#ifndef TILES_H
#define TILES_H
#include <stdint.h>

/* immintrin.h may be included before or after this file: its own tiles are left out. GCC's do not
   tell the compiler that loads read memory, so that stores before them may come too late. */
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _AMXTILEINTRIN_H_INCLUDED
#define _AMXINT8INTRIN_H_INCLUDED
#define _AMXBF16INTRIN_H_INCLUDED
#define __AMXINTRIN_H

/* What _tile_loadconfig reads: palette 1, then bytes per row and rows of each tile. */
struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

#define _tile_loadconfig(from) tile_loadconfig(from)
#define _tile_release() tile_release()

#ifdef TILES_HARDWARE

static inline void tile_loadconfig(const void *from) {
  __asm__ volatile("ldtilecfg %0" ::"m"(*(const struct tile_config *)from) : "memory");
}

static inline void tile_release(void) { __asm__ volatile("tilerelease"); }

#define tile_name(tile) tile_name_(tile)
#define tile_name_(tile) tile_name_##tile /* not #tile: an argument's text must not reach the assembler */
#define tile_name_0 "%%tmm0"
#define tile_name_1 "%%tmm1"
#define tile_name_2 "%%tmm2"
#define tile_name_3 "%%tmm3"
#define tile_name_4 "%%tmm4"
#define tile_name_5 "%%tmm5"
#define tile_name_6 "%%tmm6"
#define tile_name_7 "%%tmm7"
#define tile_move(name, operands, address, stride) \
  __asm__ volatile(name " " operands ::"r"((const void *)(address)), "r"((long)(stride)) : "memory")
#define tile_product(name, c, a, b) \
  __asm__ volatile(name " " tile_name(b) ", " tile_name(a) ", " tile_name(c)::)
#define _tile_zero(tile) __asm__ volatile("tilezero " tile_name(tile)::)
#define _tile_loadd(tile, from, stride) \
  tile_move("tileloadd", "(%0,%1,1), " tile_name(tile), from, stride)
#define _tile_stream_loadd(tile, from, stride) \
  tile_move("tileloaddt1", "(%0,%1,1), " tile_name(tile), from, stride)
#define _tile_stored(tile, to, stride) \
  tile_move("tilestored", tile_name(tile) ", (%0,%1,1)", to, stride)
#define _tile_dpbssd(c, a, b) tile_product("tdpbssd", c, a, b)
#define _tile_dpbf16ps(c, a, b) tile_product("tdpbf16ps", c, a, b)

#else
#include <string.h>

static struct tile_config tile_shapes;

#ifdef TILES_COUNTED

static uint64_t tile_counts[1];

static inline void tile_loadconfig(const void *from) {
  memcpy(&tile_shapes, from, sizeof tile_shapes);
}

static inline void tile_release(void) {}
static inline void tile_zero(int tile) { (void)tile; }

static inline void tile_loadd(int tile, const void *from, long stride) {
  (void)from, (void)stride;
  tile_counts[0] += (uint64_t)tile_shapes.rows[tile] * tile_shapes.row_bytes[tile];
}

static inline void tile_stored(int tile, void *to, long stride) {
  (void)tile, (void)to, (void)stride;
}

static inline void tile_dpbssd(int c, int a, int b) { (void)c, (void)a, (void)b; }
static inline void tile_dpbf16ps(int c, int a, int b) { (void)c, (void)a, (void)b; }

#else

static _Alignas(64) uint8_t tile_data[8][16][64];

static inline void tile_require(int holds) {
  if (!holds) __builtin_trap();
}

static inline void tile_require_tile(int tile) {
  tile_require(tile_shapes.palette == 1 && tile >= 0 && tile < 8 && tile_shapes.rows[tile]);
}

static inline void tile_release(void) { memset(&tile_shapes, 0, sizeof tile_shapes); }

static inline void tile_loadconfig(const void *from) {
  memcpy(&tile_shapes, from, sizeof tile_shapes);
  memset(tile_data, 0, sizeof tile_data);
  if (tile_shapes.palette == 0) { /* as releasing them, whatever else it says */
    tile_release();
    return;
  }
  tile_require(tile_shapes.palette == 1 && tile_shapes.start_row == 0);
  for (int i = 0; i < 14; i++) tile_require(!tile_shapes.reserved[i]);
  for (int tile = 0; tile < 16; tile++) {
    int rows = tile_shapes.rows[tile], bytes = tile_shapes.row_bytes[tile];
    tile_require(rows <= 16 && bytes <= 64 && !rows == !bytes && (tile < 8 || !rows));
  }
}

static inline void tile_zero(int tile) {
  tile_require_tile(tile);
  memset(tile_data[tile], 0, sizeof tile_data[tile]);
}

static inline void tile_loadd(int tile, const void *from, long stride) {
  tile_zero(tile);
  for (int row = 0; row < tile_shapes.rows[tile]; row++)
    memcpy(tile_data[tile][row], (const char *)from + row * stride, tile_shapes.row_bytes[tile]);
}

static inline void tile_stored(int tile, void *to, long stride) {
  tile_require_tile(tile);
  for (int row = 0; row < tile_shapes.rows[tile]; row++)
    memcpy((char *)to + row * stride, tile_data[tile][row], tile_shapes.row_bytes[tile]);
}

static inline void tile_require_product(int c, int a, int b) {
  tile_require_tile(a), tile_require_tile(b), tile_require_tile(c);
  tile_require(c != a && c != b && a != b && tile_shapes.rows[c] == tile_shapes.rows[a] &&
               tile_shapes.row_bytes[c] == tile_shapes.row_bytes[b] &&
               tile_shapes.row_bytes[c] % 4 == 0 &&
               tile_shapes.row_bytes[a] == 4 * tile_shapes.rows[b]);
}

static inline void tile_dpbssd(int c, int a, int b) {
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

/* Subnormal numbers count as zeros there, before and after. */
static inline float tile_flushed(float value) {
  return __builtin_fabsf(value) < 0x1p-126f ? __builtin_copysignf(0.0f, value) : value;
}

static inline float tile_bf16(const uint8_t *from) {
  uint16_t bits;
  memcpy(&bits, from, 2);
  uint32_t whole = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &whole, 4);
  return tile_flushed(value);
}

/* Even and odd places are summed apart, each product rounded once with its sum. */
static inline void tile_dpbf16ps(int c, int a, int b) {
  tile_require_product(c, a, b);
  for (int m = 0; m < tile_shapes.rows[c]; m++)
    for (int n = 0; n < tile_shapes.row_bytes[c] / 4; n++) {
      float sum, sums[2] = {0.0f, 0.0f};
      memcpy(&sum, tile_data[c][m] + 4 * n, 4);
      for (int k = 0; k < tile_shapes.row_bytes[a] / 2; k++)
        sums[k % 2] = tile_flushed(
            __builtin_fmaf(tile_bf16(tile_data[a][m] + 2 * k),
                           tile_bf16(tile_data[b][k / 2] + 4 * n + 2 * (k % 2)), sums[k % 2]));
      sum = tile_flushed(tile_flushed(sum) + tile_flushed(sums[0] + sums[1]));
      memcpy(tile_data[c][m] + 4 * n, &sum, 4);
    }
}

#endif

/* As in the instructions, a number that is no literal does not compile. */
enum { tile_0, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7 };
#define tile_number(tile) tile_number_(tile)
#define tile_number_(tile) tile_##tile
#define _tile_zero(tile) tile_zero(tile_number(tile))
#define _tile_loadd(tile, from, stride) tile_loadd(tile_number(tile), from, stride)
#define _tile_stream_loadd(tile, from, stride) tile_loadd(tile_number(tile), from, stride)
#define _tile_stored(tile, to, stride) tile_stored(tile_number(tile), to, stride)
#define _tile_dpbssd(c, a, b) tile_dpbssd(tile_number(c), tile_number(a), tile_number(b))
#define _tile_dpbf16ps(c, a, b) tile_dpbf16ps(tile_number(c), tile_number(a), tile_number(b))
#endif
#endif
