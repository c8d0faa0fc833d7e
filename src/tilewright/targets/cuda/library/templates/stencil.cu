#include <cuda_runtime.h>

// A thread walks down EACH rows of one column and keeps the three last values in registers.
TUNE(ACROSS, 64, 32, 128, 256)
TUNE(DOWN, 4, 1, 2, 8)
TUNE(EACH, 4, 1, 8, 16)
TUNE_REQUIRE(ACROSS * DOWN <= 1024)

__global__ void __launch_bounds__(ACROSS *DOWN) stencil(const float *X, float *Y, int height, int width) {
  int column = blockIdx.x * ACROSS + threadIdx.x, row = (blockIdx.y * DOWN + threadIdx.y) * EACH;
  if (column >= width || row >= height) return;
  const float *x = X + (size_t)row * (width + 2) + column + 1;
  float above = x[0], here = x[width + 2];
  for (int r = row; r < min(row + EACH, height); r++) {
    x += width + 2;
    float below = x[width + 2];
    Y[(size_t)r * width + column] = 0.5f * here + 0.125f * ((above + below) + (x[-1] + x[1]));
    above = here;
    here = below;
  }
}

void kernel(PARAMETERS) {
  dim3 block(ACROSS, DOWN), grid((W + ACROSS - 1) / ACROSS, (H + DOWN * EACH - 1) / (DOWN * EACH));
  stencil<<<grid, block>>>(X, Y, H, W);
}
