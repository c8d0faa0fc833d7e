// On: chain-64x96
#include <cuda_runtime.h>
__device__ inline float one(float x, float s, float b, float g) { float v = x * s + b; return v / (1.0f + expf(-v)) * g; }
__global__ void chain(const float *X, const float *scale, const float *bias, const float *G, float *Y, int C, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 3 < n && C % 4 == 0) {
    float4 x = *(const float4 *)(X + i), g = *(const float4 *)(G + i);
    int c = i % C;
    float4 s = *(const float4 *)(scale + c), b = *(const float4 *)(bias + c);
    *(float4 *)(Y + i) = make_float4(one(x.x, s.x, b.x, g.x), one(x.y, s.y, b.y, g.y), one(x.z, s.z, b.z, g.z), one(x.w, s.w, b.w, g.w));
  } else {
    for (; i < n && i >= 0; i++) Y[i] = one(X[i], scale[i % C], bias[i % C], G[i]);
  }
}
void kernel(const float *X, const float *scale, const float *bias, const float *G, float *Y, int R = 64, int C = 96) { int n = R * C; chain<<<(n / 4 + 127) / 128, 128>>>(X, scale, bias, G, Y, C, n); }
