#include <cuda_runtime.h>

// Reduces rows whose elements are not adjacent. A thread computes V neighbouring rows; PARTS threads share the elements of each.
TUNE(THREADS, 32, 64, 128)    // groups of V rows for each block
TUNE(PARTS, 8, 4, 16, 1)
TUNE(V, 1, 2, 4)
TUNE_REQUIRE(THREADS * PARTS >= 64 && THREADS * PARTS <= 1024)
TUNE_REQUIRE(4 * THREADS * PARTS * V <= 49152)

enum { SUM, MOST, LEAST };
template <int WIDTH> struct __align__(4 * WIDTH) Vector { float at[WIDTH]; };

template <int KIND> __device__ float joined(float one, float other) {
  return KIND == SUM ? one + other : KIND == MOST ? fmaxf(one, other) : fminf(one, other);
}

// What the threads that share rows have found, joined.
template <int KIND, int WIDTH> __device__ void of_columns(float *values, float (*parts)[THREADS * WIDTH]) {
  if (PARTS == 1) return;
  for (int v = 0; v < WIDTH; v++) parts[threadIdx.y][threadIdx.x * WIDTH + v] = values[v];
  __syncthreads();
  for (int v = 0; v < WIDTH; v++) {
    values[v] = parts[0][threadIdx.x * WIDTH + v];
    for (int p = 1; p < PARTS; p++) values[v] = joined<KIND>(values[v], parts[p][threadIdx.x * WIDTH + v]);
  }
  __syncthreads();
}

template <int WIDTH> __global__ void __launch_bounds__(THREADS *PARTS)
    columns_of({TAKEN}{KIND} *result, unsigned count, int columns, unsigned vectors) {
  __shared__ float parts[PARTS][THREADS * WIDTH];
  unsigned row = blockIdx.x * THREADS + threadIdx.x;
  bool there = row < count;
  if (!there) row = 0;
  unsigned begin = row / vectors * columns * vectors + row % vectors;
{PHASES}
}

static void launch({TAKEN}{KIND} *result, int rows, int columns, int inner) {
  dim3 block(THREADS, PARTS);
  int width = inner % V == 0 ? V : 1;
  unsigned count = rows / width, blocks = (count + THREADS - 1) / THREADS;
  if (width == V) columns_of<V><<<blocks, block>>>({PASSED}result, count, columns, inner / V);
  else columns_of<1><<<blocks, block>>>({PASSED}result, count, columns, inner);
}
