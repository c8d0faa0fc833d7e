// A straightforward softmax: one thread computes one row and reads the row three times.
#include <cuda_runtime.h>

__global__ void softmax(const float *x, float *y, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float *in = x + (size_t)row * columns;
  float *out = y + (size_t)row * columns;
  float largest = in[0];
  for (int i = 1; i < columns; i++) largest = fmaxf(largest, in[i]);
  float sum = 0.0f;
  for (int i = 0; i < columns; i++) sum += expf(in[i] - largest);
  for (int i = 0; i < columns; i++) out[i] = expf(in[i] - largest) / sum;
}

// tilewright checks and times the kernel at the default sizes.
void kernel(const float *x, float *y, int rows = 128, int columns = 256) {
  softmax<<<(rows + 31) / 32, 32>>>(x, y, rows, columns);
}
