#include <cuda_runtime.h>

constexpr int R = {R}, S = {S}, STRIDE = {T}, PADDING = {P};

// One thread for each output.
__global__ void convolution(const float *X, const float *F, const float *bias, float *Y, int C, int H, int W, int K, int P, int Q,
                            size_t count) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int q = i % Q, p = i / Q % P, k = i / ((size_t)Q * P) % K;
  size_t n = i / ((size_t)Q * P * K);
  float sum = bias[k];
  for (int c = 0; c < C; c++)
    for (int r = 0; r < R; r++)
      for (int s = 0; s < S; s++) {
        int y = p * STRIDE + r - PADDING, x = q * STRIDE + s - PADDING;
        if (y >= 0 && y < H && x >= 0 && x < W)
          sum += X[((n * C + c) * H + y) * W + x] * F[((k * C + c) * R + r) * S + s];
      }
  Y[i] = sum;
}

void kernel(PARAMETERS) {
  int P = (H + 2 * PADDING - R) / STRIDE + 1, Q = (W + 2 * PADDING - S) / STRIDE + 1;
  size_t count = (size_t)N * K * P * Q;
  convolution<<<(unsigned)((count + 255) / 256), 256>>>(X, F, bias, Y, C, H, W, K, P, Q, count);
}
