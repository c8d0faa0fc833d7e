#include <cuda_runtime.h>

// ROWS rows for each block, THREADS threads for each row, V neighbouring elements for each load.
TUNE(THREADS, 128, 32, 256, 512)
TUNE(ROWS, 1, 2, 4)
TUNE(V, 4, 1, 2)
TUNE_REQUIRE(THREADS * ROWS <= 1024)

constexpr int WARPS = THREADS / 32;
enum { SUM, MOST, LEAST };
template <int WIDTH> struct __align__(4 * WIDTH) Vector { float at[WIDTH]; };

template <int KIND> __device__ float joined(float one, float other) {
  return KIND == SUM ? one + other : KIND == MOST ? fmaxf(one, other) : fminf(one, other);
}

template <int KIND> __device__ float of_row(float value, float *parts) {
  for (int offset = 16; offset; offset /= 2) value = joined<KIND>(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (WARPS == 1) return value;
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < WARPS; i++) value = joined<KIND>(value, parts[i]);
  __syncthreads();
  return value;
}

template <int WIDTH> __global__ void __launch_bounds__(THREADS *ROWS) rows_of({TAKEN}{KIND} *result, int rows, int columns) {
  __shared__ float shared[ROWS][WARPS];
  int row = blockIdx.x * ROWS + threadIdx.y, length = columns / WIDTH;
  bool there = row < rows;
  unsigned begin = (unsigned)(there ? row : 0) * length;
  float *parts = shared[threadIdx.y];
{PHASES}
}

static void launch({TAKEN}{KIND} *result, int rows, int columns) {
  dim3 block(THREADS, ROWS);
  unsigned blocks = (rows + ROWS - 1) / ROWS;
  if (columns % V == 0) rows_of<V><<<blocks, block>>>({PASSED}result, rows, columns);
  else rows_of<1><<<blocks, block>>>({PASSED}result, rows, columns);
}
