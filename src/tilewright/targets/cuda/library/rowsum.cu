#include <cuda_runtime.h>

// One block for each row.
__global__ void row_sums(const float *X, float *Y, int C) {
  __shared__ float parts[256];
  const float *x = X + (size_t)blockIdx.x * C;
  int t = threadIdx.x;
  float sum = 0.0f;
  for (int c = t; c < C; c += blockDim.x) sum += x[c];
  parts[t] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) parts[t] += parts[t + half];
    __syncthreads();
  }
  if (t == 0) Y[blockIdx.x] = parts[0];
}

void kernel(PARAMETERS) {
  row_sums<<<R, 256>>>(X, Y, C);
}
