#include <cuda_runtime.h>

// One block for each row.
__global__ void softmax(const float *X, float *Y, int C) {
  __shared__ float parts[256];
  const float *x = X + (size_t)blockIdx.x * C;
  float *y = Y + (size_t)blockIdx.x * C;
  int t = threadIdx.x;
  float most = x[0];
  for (int c = t; c < C; c += blockDim.x) most = fmaxf(most, x[c]);
  parts[t] = most;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) parts[t] = fmaxf(parts[t], parts[t + half]);
    __syncthreads();
  }
  most = parts[0];
  __syncthreads();
  float sum = 0.0f;
  for (int c = t; c < C; c += blockDim.x) sum += expf(x[c] - most);
  parts[t] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) parts[t] += parts[t + half];
    __syncthreads();
  }
  sum = parts[0];
  for (int c = t; c < C; c += blockDim.x) y[c] = expf(x[c] - most) / sum;
}

void kernel(PARAMETERS) {
  softmax<<<R, 256>>>(X, Y, C);
}
