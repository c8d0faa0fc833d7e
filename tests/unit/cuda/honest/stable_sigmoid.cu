// On: chain-64x96
#include <cuda_runtime.h>
__device__ float sigmoid(float v) { if (v >= 0.0f) { float e = expf(-v); return 1.0f / (1.0f + e); } float e = expf(v); return e / (1.0f + e); }
__global__ void chain(const float *X, const float *scale, const float *bias, const float *G, float *Y, int C, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int c = i % C;
    float v = fmaf(X[i], scale[c], bias[c]);
    Y[i] = v * sigmoid(v) * G[i];
  }
}
void kernel(const float *X, const float *scale, const float *bias, const float *G, float *Y, int R = 64, int C = 96) { chain<<<4, 256>>>(X, scale, bias, G, Y, C, R * C); }
