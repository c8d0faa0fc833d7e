/* A matrix-vector product by the hardware loop unroller, as a vendor's library drives it: one loop
   per product, with a vector to add where there is one. The caller orders results that are read
   again by fences. */
#include "gemmini_loops.h"

static inline int blocks(int size) { return (size + DIM - 1) / DIM; }
static inline int padding(int size) { return blocks(size) * DIM - size; }

/* to[m] = add[m] + sum over k of matrix[m][k] * vector[k]; the vectors are one column wide */
static void multiply(const float *matrix, const float *vector, const float *add, float *to,
                     int rows, int columns) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(sizeof(float) * columns, 1.0f, DIM, 0);
  config_ld(sizeof(float), 1.0f, DIM, 1);
  config_ld(sizeof(float), 1.0f, DIM, 2);
  config_st(sizeof(float));
  loop_ws_bounds(blocks(rows), 1, blocks(columns), padding(rows), DIM - 1, padding(columns));
  loop_ws_addresses_ab(matrix, vector);
  loop_ws_addresses_dc(add, to);
  loop_ws_strides_ab(columns, 1);
  loop_ws_strides_dc(1, 1);
  loop_ws(add != 0, 0, 0, 0, 0);
}
