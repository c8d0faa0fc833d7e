/* The hardware loop unrollers: one command makes the accelerator send itself all moves and products
   of a tile. Include it on top of a kernel that uses them. Fields are those of the public Gemmini
   RTL; what is left out here (pooling, transposed arrays, depthwise filters) is not modelled.

   Two loops are in flight at a time. Each has one half of the scratchpad, and of the accumulator
   the half after that of the last loop that stored its result. Sizes are in elements. */
#ifndef TILEWRIGHT_GEMMINI_LOOPS_H
#define TILEWRIGHT_GEMMINI_LOOPS_H

#include "gemmini.h"

/* C = A * B + D in i x j x k blocks of DIM; the last block of each lacks pad_i, pad_j, pad_k rows or
   columns. Strides are elements between rows. D may be 0 for none, C to keep the sums for the next
   loop; `accumulate` adds to the sums of the last loop. Moves use the settings of config_ld (A: id
   0, B: 1, D: 2; block stride DIM) and config_st, products those of config_ex. */
#define loop_ws_bounds(i, j, k, pad_i, pad_j, pad_k)                                        \
  GEMMINI_COMMAND_(9, GEMMINI_THREE_(pad_i, pad_j, pad_k), GEMMINI_THREE_(i, j, k))
#define loop_ws_addresses_ab(a, b) GEMMINI_COMMAND_(10, (uintptr_t)(a), (uintptr_t)(b))
#define loop_ws_addresses_dc(d, c) GEMMINI_COMMAND_(11, (uintptr_t)(d), (uintptr_t)(c))
#define loop_ws_strides_ab(a_stride, b_stride) GEMMINI_COMMAND_(12, a_stride, b_stride)
#define loop_ws_strides_dc(d_stride, c_stride) GEMMINI_COMMAND_(13, d_stride, c_stride)
#define loop_ws(accumulate, full_c, low_d, a_transpose, b_transpose)                        \
  GEMMINI_COMMAND_(8, (uint64_t)(accumulate) | (uint64_t)(full_c) << 1 |                    \
                          (uint64_t)(low_d) << 2,                                           \
                   (uint64_t)(a_transpose) | (uint64_t)(b_transpose) << 1)
#define GEMMINI_THREE_(low, middle, high) \
  ((uint64_t)(low) | (uint64_t)(middle) << 16 | (uint64_t)(high) << 32)

/* A tile of a convolution. The whole arrays: input of in_rows x in_cols pixels with in_channels,
   kernel x kernel weights, output of out_rows x out_cols pixels; strides are elements from pixel to
   pixel. The tile: `batches` x `rows` x `cols` pixels and `filters` of the output, k_rows x k_cols
   kernel positions and `channels` of the input, with zeros around it. It covers
   rows * stride + (k_rows - 1) * dilation input rows, which is stride - 1 more than needed.
   `bias` may be 0 to add to the sums of the last loop, `output` 0 to keep them; with no_bias they
   begin as zeros. Loads are set up by the loop; config_ex sets the stride, config_st stores. */
#define loop_conv_ws_arrays(in_rows, in_channels, stride, out_cols, out_rows)               \
  GEMMINI_COMMAND_(16, (uint64_t)(in_channels) << 32 | (uint64_t)(in_rows) << 16,           \
                   (uint64_t)(stride) << 48 | (uint64_t)(out_cols) << 32 |                  \
                       (uint64_t)(out_rows))
#define loop_conv_ws_tile(kernel, batches, filters)                                         \
  GEMMINI_COMMAND_(17, (uint64_t)(kernel) << 48, (uint64_t)(batches) << 48 | (uint64_t)(filters))
#define loop_conv_ws_kernel(k_rows, k_cols, channels, left, right, up, down, in_cols)       \
  GEMMINI_COMMAND_(18, (uint64_t)(k_rows) << 48 | (uint64_t)(k_cols) << 32 |                \
                           (uint64_t)(channels) << 16 | (uint64_t)(left),                   \
                   (uint64_t)(right) << 48 | (uint64_t)(up) << 32 | (uint64_t)(down) << 24 |\
                       (uint64_t)(in_cols))
#define loop_conv_ws_strides(rows, dilation, in_stride, weight_stride, out_stride, cols)    \
  GEMMINI_COMMAND_(19, (uint64_t)(rows) << 48 | (uint64_t)(dilation),                       \
                   (uint64_t)(in_stride) << 48 | (uint64_t)(weight_stride) << 32 |          \
                       (uint64_t)(out_stride) << 16 | (uint64_t)(cols))
#define loop_conv_ws_addresses(weights, output, bias, input)                                \
  do {                                                                                      \
    GEMMINI_COMMAND_(20, (uintptr_t)(weights), (uintptr_t)(output));                        \
    GEMMINI_COMMAND_(21, (uintptr_t)(bias), (uintptr_t)(input));                            \
  } while (0)
#define loop_conv_ws(no_bias) GEMMINI_COMMAND_(15, (uint64_t)(no_bias), UINT64_C(1))

#endif
