// On: softmax-64x100
#include <cuda_runtime.h>
// Maximum by compare and swap on bits, several blocks for each row.
__device__ float atomicMaxFloat(float *at, float value) {
  int *bits = (int *)at, old = *bits, assumed;
  do {
    assumed = old;
    if (__int_as_float(assumed) >= value) break;
    old = atomicCAS(bits, assumed, __float_as_int(value));
  } while (assumed != old);
  return __int_as_float(old);
}
__global__ void start(float *most, float *sums, int R) { int r = blockIdx.x * blockDim.x + threadIdx.x; if (r < R) { most[r] = -INFINITY; sums[r] = 0.0f; } }
__global__ void maxima(const float *X, float *most, int C) {
  float m = -INFINITY;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < C; c += gridDim.x * blockDim.x) m = fmaxf(m, X[(size_t)blockIdx.y * C + c]);
  for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_down_sync(~0u, m, o));
  if ((threadIdx.x & 31) == 0) atomicMaxFloat(most + blockIdx.y, m);
}
__global__ void sums_(const float *X, const float *most, float *sums, int C) {
  float s = 0.0f;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < C; c += gridDim.x * blockDim.x) s += expf(X[(size_t)blockIdx.y * C + c] - most[blockIdx.y]);
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if ((threadIdx.x & 31) == 0) atomicAdd(sums + blockIdx.y, s);
}
__global__ void divided(const float *X, const float *most, const float *sums, float *Y, int C) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c < C) Y[(size_t)blockIdx.y * C + c] = expf(X[(size_t)blockIdx.y * C + c] - most[blockIdx.y]) / sums[blockIdx.y];
}
void kernel(const float *X, float *Y, int R = 64, int C = 100) {
  float *scratch;
  cudaMalloc(&scratch, 2 * R * sizeof(float));
  start<<<(R + 127) / 128, 128>>>(scratch, scratch + R, R);
  dim3 grid((C + 63) / 64, R);
  maxima<<<grid, 64>>>(X, scratch, C);
  sums_<<<grid, 64>>>(X, scratch, scratch + R, C);
  divided<<<grid, 64>>>(X, scratch, scratch + R, Y, C);
  cudaFree(scratch);
}
