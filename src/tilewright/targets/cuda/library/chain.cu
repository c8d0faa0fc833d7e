#include <cuda_runtime.h>

// Y = silu(X * scale + bias) * G, one kernel for each step, the values between them in memory.
__global__ void scaled(const float *X, const float *scale, const float *bias, float *Y, int C, size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Y[i] = X[i] * scale[i % C] + bias[i % C];
}

__global__ void silu(float *Y, size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Y[i] = Y[i] / (1.0f + expf(-Y[i]));
}

__global__ void gated(const float *G, float *Y, size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) Y[i] = Y[i] * G[i];
}

void kernel(PARAMETERS) {
  size_t count = (size_t)R * C;
  unsigned blocks = (unsigned)((count + 255) / 256);
  scaled<<<blocks, 256>>>(X, scale, bias, Y, C, count);
  silu<<<blocks, 256>>>(Y, count);
  gated<<<blocks, 256>>>(G, Y, count);
}
