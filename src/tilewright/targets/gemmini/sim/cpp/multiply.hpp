// The array's inner products, for each element type.
#pragma once

#include "types.hpp"

namespace cosim {

// sums[i][j] += a[i][0] * b[0][j], then a[i][1] * b[1][j], and so on: the order in which a sum
// moves through the rows of the array, or stands in it. Row-major, `dim` elements per row, of which
// `a` and `sums` have `rows`. Integers are those of int8; their sums wrap.
void multiply_add(int dim, int rows, const i16* a, const i16* b, i32* sums);
void multiply_add(int dim, int rows, const float* a, const float* b, float* sums);

}  // namespace cosim
