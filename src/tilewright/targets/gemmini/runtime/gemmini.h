/* The Gemmini commands of a tilewright kernel. Every kernel is compiled with this header already
   included; it is the whole interface: nothing else may be called.

   A command is one RoCC instruction on custom-3 (opcode 0x7b) with two source registers and no
   destination. The two operands are packed by the macros below; the "memory" clobber keeps the
   compiler from moving loads and stores of C code over a command. */
#ifndef TILEWRIGHT_GEMMINI_H
#define TILEWRIGHT_GEMMINI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Geometry and types of the configuration, written for each build:
     DIM                         rows and columns of the array; elements of a local row
     MAX_COLUMNS                 columns of the widest move
     SPAD_BANKS, SPAD_BANK_ROWS  scratchpad: banks, and rows of DIM elem_t in each
     ACC_BANKS, ACC_BANK_ROWS    accumulator: banks, and rows of DIM acc_t in each
     elem_t, acc_t               types of an operand and of a sum */
#include "configuration.h"

/* Local addresses: a row of the scratchpad or of the accumulator, and what to do there. */
#define SPAD(row) ((uint32_t)(row))
#define ACC(row) (0x80000000u | (uint32_t)(row))
#define ACCUMULATE 0x40000000u /* write: add to the accumulator row instead of overwriting it */
#define FULL 0x20000000u       /* mvout: the sums as they are, neither scaled nor saturated */
#define NONE 0xffffffffu       /* no operand */

#define OUTPUT_STATIONARY 0
#define WEIGHT_STATIONARY 1
#define NO_ACTIVATION 0
#define RELU 1

#define GEMMINI_COMMAND_(funct, first, second)                                        \
  do {                                                                                \
    const uint64_t gemmini_first_ = (uint64_t)(first);                                \
    const uint64_t gemmini_second_ = (uint64_t)(second);                              \
    __asm__ volatile(".insn r 0x7b, 3, %2, x0, %0, %1" ::"r"(gemmini_first_),         \
                     "r"(gemmini_second_), "i"(funct)                                 \
                     : "memory");                                                     \
  } while (0)

/* A local block: rows in bits 63..48, columns in 47..32, the local address in 31..0. */
#define GEMMINI_BLOCK_(local, cols, rows) \
  ((uint64_t)(uint32_t)(local) | (uint64_t)(cols) << 32 | (uint64_t)(rows) << 48)

/* The bits of a float in the upper half of an operand. */
static inline uint64_t gemmini_float_(float value) {
  union {
    float value;
    uint32_t bits;
  } both = {value};
  return (uint64_t)both.bits << 32;
}

/* config_ex(dataflow, activation, a_stride, a_transpose, b_transpose), or with a scale after these. */
#define config_ex(...) \
  GEMMINI_PICK_6_(__VA_ARGS__, GEMMINI_EXECUTE_6_, GEMMINI_EXECUTE_5_, 0)(__VA_ARGS__)
#define GEMMINI_PICK_6_(one, two, three, four, five, six, form, ...) form
#define GEMMINI_EXECUTE_5_(dataflow, activation, a_stride, a_transpose, b_transpose) \
  GEMMINI_EXECUTE_6_(dataflow, activation, a_stride, a_transpose, b_transpose, 1.0f)
#define GEMMINI_EXECUTE_6_(dataflow, activation, a_stride, a_transpose, b_transpose, scale) \
  GEMMINI_COMMAND_(0,                                                                       \
                   gemmini_float_(scale) | (uint64_t)(a_stride) << 16 |                     \
                       (uint64_t)(b_transpose) << 9 | (uint64_t)(a_transpose) << 8 |        \
                       (uint64_t)(activation) << 3 | (uint64_t)(dataflow) << 2,             \
                   UINT64_C(1) << 48)

#define config_ld(dram_stride, scale, block_stride, id)                                   \
  GEMMINI_COMMAND_(0,                                                                     \
                   gemmini_float_(scale) | (uint64_t)(block_stride) << 16 | 1u << 8 |     \
                       (uint64_t)(id) << 3 | 1u,                                          \
                   (uint64_t)(dram_stride))

/* config_st(dram_stride), config_st(dram_stride, scale) or config_st(dram_stride, scale, act):
   the picker's fourth argument is the form for as many arguments as were given. */
#define config_st(...) \
  GEMMINI_PICK_(__VA_ARGS__, GEMMINI_STORE_3_, GEMMINI_STORE_2_, GEMMINI_STORE_1_, 0)(__VA_ARGS__)
#define GEMMINI_PICK_(one, two, three, form, ...) form
#define GEMMINI_STORE_1_(dram_stride) GEMMINI_STORE_3_(dram_stride, 1.0f, NO_ACTIVATION)
#define GEMMINI_STORE_2_(dram_stride, scale) GEMMINI_STORE_3_(dram_stride, scale, NO_ACTIVATION)
#define GEMMINI_STORE_3_(dram_stride, scale, activation)   \
  GEMMINI_COMMAND_(0, (uint64_t)(activation) << 2 | 2u,    \
                   gemmini_float_(scale) | (uint64_t)(uint32_t)(dram_stride))

#define mvin(dram, local, cols, rows) \
  GEMMINI_COMMAND_(2, (uintptr_t)(dram), GEMMINI_BLOCK_(local, cols, rows))
#define mvin2(dram, local, cols, rows) \
  GEMMINI_COMMAND_(1, (uintptr_t)(dram), GEMMINI_BLOCK_(local, cols, rows))
#define mvin3(dram, local, cols, rows) \
  GEMMINI_COMMAND_(14, (uintptr_t)(dram), GEMMINI_BLOCK_(local, cols, rows))
#define mvout(dram, local, cols, rows) \
  GEMMINI_COMMAND_(3, (uintptr_t)(dram), GEMMINI_BLOCK_(local, cols, rows))

#define preload(b, c, b_cols, b_rows, c_cols, c_rows) \
  GEMMINI_COMMAND_(6, GEMMINI_BLOCK_(b, b_cols, b_rows), GEMMINI_BLOCK_(c, c_cols, c_rows))
#define compute_preloaded(a, d, a_cols, a_rows, d_cols, d_rows) \
  GEMMINI_COMMAND_(4, GEMMINI_BLOCK_(a, a_cols, a_rows), GEMMINI_BLOCK_(d, d_cols, d_rows))
#define compute_accumulated(a, d, a_cols, a_rows, d_cols, d_rows) \
  GEMMINI_COMMAND_(5, GEMMINI_BLOCK_(a, a_cols, a_rows), GEMMINI_BLOCK_(d, d_cols, d_rows))

/* A local block as one word that a register can hold: BLOCK(SPAD(0), 4, 4) + 8 is the block 8 rows
   further on, in one instruction of the core. The empty assembly keeps the compiler from folding
   words into 64-bit constants, which take several instructions each. */
static inline uint64_t gemmini_word_(uint64_t word) {
  __asm__("" : "+r"(word));
  return word;
}
#define BLOCK(local, cols, rows) gemmini_word_(GEMMINI_BLOCK_(local, cols, rows))
#define mvin_block(dram, block) GEMMINI_COMMAND_(2, (uintptr_t)(dram), block)
#define mvin2_block(dram, block) GEMMINI_COMMAND_(1, (uintptr_t)(dram), block)
#define mvin3_block(dram, block) GEMMINI_COMMAND_(14, (uintptr_t)(dram), block)
#define mvout_block(dram, block) GEMMINI_COMMAND_(3, (uintptr_t)(dram), block)
#define preload_blocks(b, c) GEMMINI_COMMAND_(6, b, c)
#define compute_preloaded_blocks(a, d) GEMMINI_COMMAND_(4, a, d)
#define compute_accumulated_blocks(a, d) GEMMINI_COMMAND_(5, a, d)

#define flush() GEMMINI_COMMAND_(7, 0, 0)
#define fence() __asm__ volatile("fence" ::: "memory")

/* The same under the names of the public Gemmini test programs, so that kernels written for them
   compile as they are. `shift` (rounding shift of output-stationary sums), `shrunk` (loads of
   elem_t into the accumulator), `only_strides` and a `c_stride` other than 1 are not modelled: give
   0, and 1 for `c_stride`. commands.toml has the same definitions. */
#define gemmini_flush(skip) flush()
#define gemmini_fence() fence()
#define gemmini_extended_mvin(dram, local, cols, rows) mvin(dram, local, cols, rows)
#define gemmini_extended_mvin2(dram, local, cols, rows) mvin2(dram, local, cols, rows)
#define gemmini_extended_mvin3(dram, local, cols, rows) mvin3(dram, local, cols, rows)
#define gemmini_mvin(dram, local) mvin(dram, local, DIM, DIM)
#define gemmini_mvin2(dram, local) mvin2(dram, local, DIM, DIM)
#define gemmini_mvin3(dram, local) mvin3(dram, local, DIM, DIM)
#define gemmini_block_mvin(dram, local, blocks) mvin(dram, local, (blocks) * DIM, DIM)
#define gemmini_extended_mvout(dram, local, cols, rows) mvout(dram, local, cols, rows)
#define gemmini_mvout(dram, local) mvout(dram, local, DIM, DIM)
#define gemmini_extended_preload(b, c, b_cols, b_rows, c_cols, c_rows) preload(b, c, b_cols, b_rows, c_cols, c_rows)
#define gemmini_preload(b, c) preload(b, c, DIM, DIM, DIM, DIM)
#define gemmini_preload_zeros(c) preload(NONE, c, DIM, DIM, DIM, DIM)
#define gemmini_extended_compute_preloaded(a, d, a_cols, a_rows, d_cols, d_rows) compute_preloaded(a, d, a_cols, a_rows, d_cols, d_rows)
#define gemmini_compute_preloaded(a, d) compute_preloaded(a, d, DIM, DIM, DIM, DIM)
#define gemmini_extended_compute_accumulated(a, d, a_cols, a_rows, d_cols, d_rows) compute_accumulated(a, d, a_cols, a_rows, d_cols, d_rows)
#define gemmini_compute_accumulated(a, d) compute_accumulated(a, d, DIM, DIM, DIM, DIM)
#define gemmini_config_ex(dataflow, act, shift) config_ex(dataflow, act, 1, 0, 0)
#define gemmini_extended_config_ex(dataflow, act, shift, a_stride, a_transpose, b_transpose) config_ex(dataflow, act, a_stride, a_transpose, b_transpose)
#define gemmini_extended2_config_ex(dataflow, act, shift, a_stride, a_transpose, b_transpose, only_strides) config_ex(dataflow, act, a_stride, a_transpose, b_transpose)
#define gemmini_extended3_config_ex(dataflow, act, shift, scale, c_stride, a_stride, a_transpose, b_transpose, only_strides) config_ex(dataflow, act, a_stride, a_transpose, b_transpose, scale)
#define gemmini_config_ld(stride) config_ld(stride, 1.0f, DIM, 0)
#define gemmini_extended_config_ld(stride, scale) config_ld(stride, scale, DIM, 0)
#define gemmini_extended2_config_ld(stride, scale, shrunk) config_ld(stride, scale, DIM, 0)
#define gemmini_extended3_config_ld(stride, scale, shrunk, id) config_ld(stride, scale, DIM, id)
#define gemmini_extended4_config_ld(stride, scale, shrunk, block_stride, id) config_ld(stride, scale, block_stride, id)
#define gemmini_config_st(stride) config_st(stride)
#define gemmini_extended_config_st(stride, act, scale) config_st(stride, scale, act)
#define GARBAGE_ADDR NONE
#define MVIN_SCALE_IDENTITY 1.0f
#define ACC_SCALE_IDENTITY 1.0f
#define ADDR_LEN 32
#define BANK_NUM SPAD_BANKS
#define BANK_ROWS SPAD_BANK_ROWS
#define MAX_BLOCK_LEN (MAX_COLUMNS / DIM)
typedef float scale_t;
typedef float acc_scale_t;

#endif
