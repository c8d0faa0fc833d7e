#include <cuda_runtime.h>

// ROWS rows for each block, THREADS threads for each row, V neighbouring elements for each load.
TUNE(THREADS, 128, 32, 256, 512)
TUNE(ROWS, 1, 2, 4)
TUNE(V, 4, 1, 2)
TUNE_REQUIRE(THREADS * ROWS <= 1024)

constexpr bool SOFTMAX = {SOFTMAX};
constexpr int WARPS = THREADS / 32;
template <int WIDTH> struct __align__(4 * WIDTH) Vector { float at[WIDTH]; };

template <bool LARGEST> __device__ float of_row(float value, float *parts) {
  for (int offset = 16; offset; offset /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = LARGEST ? fmaxf(value, other) : value + other;
  }
  if (WARPS == 1) return value;
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int i = 1; i < WARPS; i++) value = LARGEST ? fmaxf(value, parts[i]) : value + parts[i];
  __syncthreads();
  return value;
}

template <int WIDTH> __global__ void __launch_bounds__(THREADS *ROWS) rows_of(const float *X, float *Y, int rows, int columns) {
  __shared__ float shared[ROWS][WARPS];
  int row = blockIdx.x * ROWS + threadIdx.y, length = columns / WIDTH;
  bool there = row < rows;
  const Vector<WIDTH> *x = (const Vector<WIDTH> *)(X + (size_t)(there ? row : 0) * columns);
  float *parts = shared[threadIdx.y];
  float most = SOFTMAX ? -3.4e38f : 0.0f, sum = 0.0f;
  if (SOFTMAX) {
    for (int i = threadIdx.x; i < length; i += THREADS) {
      Vector<WIDTH> values = x[i];
#pragma unroll
      for (int v = 0; v < WIDTH; v++) most = fmaxf(most, values.at[v]);
    }
    most = of_row<true>(most, parts);
  }
  for (int i = threadIdx.x; i < length; i += THREADS) {
    Vector<WIDTH> values = x[i];
#pragma unroll
    for (int v = 0; v < WIDTH; v++) sum += SOFTMAX ? expf(values.at[v] - most) : values.at[v];
  }
  sum = of_row<false>(sum, parts);
  if (!SOFTMAX) {
    if (there && threadIdx.x == 0) Y[row] = sum;
    return;
  }
  Vector<WIDTH> *y = (Vector<WIDTH> *)(Y + (size_t)row * columns);
  for (int i = threadIdx.x; there && i < length; i += THREADS) {
    Vector<WIDTH> values = x[i];
#pragma unroll
    for (int v = 0; v < WIDTH; v++) values.at[v] = expf(values.at[v] - most) / sum;
    y[i] = values;
  }
}

void kernel(PARAMETERS) {
  dim3 block(THREADS, ROWS);
  unsigned blocks = (R + ROWS - 1) / ROWS;
  if (C % V == 0) rows_of<V><<<blocks, block>>>(X, Y, R, C);
  else rows_of<1><<<blocks, block>>>(X, Y, R, C);
}
