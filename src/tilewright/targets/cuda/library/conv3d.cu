#include <cuda_runtime.h>

constexpr int R = {R};

// One thread for each output.
__global__ void convolution(const float *X, const float *F, float *Y, int C, int D, int H, int W, int K, size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int O = D - R + 1, P = H - R + 1, Q = W - R + 1;
  int q = i % Q, p = i / Q % P, o = i / ((size_t)Q * P) % O, k = i / ((size_t)Q * P * O) % K;
  size_t n = i / ((size_t)Q * P * O * K);
  float sum = 0.0f;
  for (int c = 0; c < C; c++)
    for (int d = 0; d < R; d++)
      for (int r = 0; r < R; r++)
        for (int s = 0; s < R; s++)
          sum += X[(((n * C + c) * D + o + d) * H + p + r) * W + q + s] * F[(((k * C + c) * R + d) * R + r) * R + s];
  Y[i] = sum;
}

void kernel(PARAMETERS) {
  size_t count = (size_t)N * K * (D - R + 1) * (H - R + 1) * (W - R + 1);
  convolution<<<(unsigned)((count + 255) / 256), 256>>>(X, F, Y, C, D, H, W, K, count);
}
