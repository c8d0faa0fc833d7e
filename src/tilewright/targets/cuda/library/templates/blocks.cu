#include <cuda_pipeline.h>
#include <cuda_runtime.h>
{INCLUDES}// A block computes TM x TN elements of a product. Tiles of both factors arrive in shared memory, STAGES - 1 of them ahead.
TUNE(TM, 128, 64, 256)        // rows of the result that a block computes
TUNE(TN, 128, 64, 256)        // columns of it
TUNE(TK, 16, 8, 32)           // terms of a tile
TUNE(STAGES, 3, 2, 4)         // tiles that are in shared memory or on their way
TUNE(SPLIT, {SPLITS})      // parts of each sum, which different blocks add up
TUNE(BLOCKS, 2, 1)            // blocks that a multiprocessor has registers for
{TUNED}

constexpr int LEFT = TK + 4, RIGHT = TN + 8, STAGE = TM * LEFT + TK * RIGHT;  // rows are padded against bank conflicts
TUNE_REQUIRE(4 * STAGES * (TM * (TK + 4) + TK * (TN + 8)) <= {SHARED})

{ADDED}

// Four elements of a row of the result.
__device__ void put(float *result, const Added &added, int row, int column, int rows, int columns, float4 values) {
  if (row >= rows || column >= columns) return;
  float *to = &result[(size_t)row * columns + column];
  float each[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (column + i < columns) each[i] = finished(added, &to[i], row, each[i]);
  if (SPLIT == 1 && columns % 4 == 0) *(float4 *)to = make_float4(each[0], each[1], each[2], each[3]);
  else
    for (int i = 0; i < 4 && column + i < columns; i++) {
      if (SPLIT == 1) to[i] = each[i];
      else atomicAdd(&to[i], each[i]);
    }
}

{SUMS}
// ROWS x COLUMNS elements of a matrix, those outside as zeros, into rows LENGTH apart. VECTORS: its rows begin at
// multiples of 16 bytes.
template <bool VECTORS, int ROWS, int COLUMNS, int LENGTH>
__device__ void load_tile(float *tile, const float *from, int row, int rows, int column, int columns, int row_length) {
  constexpr int WIDTH = VECTORS ? 4 : 1, ACROSS = COLUMNS / WIDTH;
#pragma unroll
  for (int i = threadIdx.x; i < ROWS * ACROSS; i += THREADS) {
    int r = i / ACROSS, c = i % ACROSS * WIDTH;
    bool there = row + r < rows && column + c < columns;
    const float *at = there ? &from[(size_t)(row + r) * row_length + column + c] : from;
    __pipeline_memcpy_async(&tile[r * LENGTH + c], at, 4 * WIDTH, there ? 0 : 4 * WIDTH);
  }
}

{LOAD_RIGHT}
template <bool VECTORS> __global__ void __launch_bounds__(THREADS, BLOCKS)
    product(const float *left, size_t left_step, Right right, Added added, float *result, int rows, int columns, int terms) {
  extern __shared__ __align__(128) float tiles[];
  int row = blockIdx.y * TM, column = blockIdx.x * TN;
  int part = (terms + SPLIT * TK - 1) / (SPLIT * TK) * TK;
  int begin = blockIdx.z % SPLIT * part, end = min(terms, begin + part), steps = (end - begin + TK - 1) / TK;
  left += right.left_of(blockIdx.z / SPLIT) * left_step;
  right.choose(blockIdx.z / SPLIT, column, columns);
  result += (size_t)(blockIdx.z / SPLIT) * rows * columns;
  Sums sums;
  sums.clear();
#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) {
      load_tile<VECTORS, TM, TK, LEFT>(&tiles[s * STAGE], left, row, rows, begin + s * TK, end, terms);
      right.load<VECTORS>(&tiles[s * STAGE + TM * LEFT], begin + s * TK, end);
    }
    __pipeline_commit();
  }
  for (int step = 0; step < steps; step++) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    int next = step + STAGES - 1;
    if (next < steps) {
      float *tile = &tiles[next % STAGES * STAGE];
      load_tile<VECTORS, TM, TK, LEFT>(tile, left, row, rows, begin + next * TK, end, terms);
      right.load<VECTORS>(tile + TM * LEFT, begin + next * TK, end);
    }
    __pipeline_commit();
    sums.add(&tiles[step % STAGES * STAGE], &tiles[step % STAGES * STAGE + TM * LEFT]);
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  sums.write(tiles, result, added, row, column, rows, columns);
}

{LAUNCHER}
  constexpr int BYTES = 4 * STAGES * STAGE;
  if (SPLIT > 1) cudaMemsetAsync({RESULT}, 0, sizeof(float) * images * rows * columns, 0);
  dim3 grid((columns + TN - 1) / TN, (rows + TM - 1) / TM, SPLIT * images);
  if (vectors) {
    cudaFuncSetAttribute(product<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    product<true><<<grid, THREADS, BYTES>>>(left, left_step, right, added, {RESULT}, rows, columns, terms);
  } else {
    cudaFuncSetAttribute(product<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    product<false><<<grid, THREADS, BYTES>>>(left, left_step, right, added, {RESULT}, rows, columns, terms);
  }
}
