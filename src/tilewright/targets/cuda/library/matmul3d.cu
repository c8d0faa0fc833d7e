#include <cuda_runtime.h>

// Each of the B matrices of A is multiplied by the same matrix W: the rows of all of them are one matrix.
__global__ void product(const float *A, const float *W, float *C, int rows, int N, int K) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || column >= N) return;
  float sum = 0.0f;
  for (int k = 0; k < K; k++) sum += A[(size_t)row * K + k] * W[(size_t)k * N + column];
  C[(size_t)row * N + column] = sum;
}

void kernel(PARAMETERS) {
  int rows = B * M;
  dim3 block(32, 8);
  dim3 grid((N + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
  product<<<grid, block>>>(A, W, C, rows, N, K);
}
