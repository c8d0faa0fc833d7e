#include <cuda_runtime.h>

// All steps in one kernel: a thread computes V neighbouring elements of a row, in steps of the whole grid.
TUNE(THREADS, 256, 128, 512)
TUNE(V, 4, 1, 2)
TUNE(EACH, 1, 2, 4)           // times that a thread does so

template <int WIDTH> struct __align__(4 * WIDTH) Vector { float at[WIDTH]; };

template <int WIDTH> __global__ void __launch_bounds__(THREADS) chain(const float *X, const float *scale, const float *bias,
                                                                     const float *G, float *Y, int columns, size_t count) {
  size_t step = (size_t)gridDim.x * THREADS;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
    int column = i % (columns / WIDTH);
    Vector<WIDTH> x = ((const Vector<WIDTH> *)X)[i], g = ((const Vector<WIDTH> *)G)[i];
    Vector<WIDTH> s = ((const Vector<WIDTH> *)scale)[column], b = ((const Vector<WIDTH> *)bias)[column];
#pragma unroll
    for (int v = 0; v < WIDTH; v++) {
      float scaled = x.at[v] * s.at[v] + b.at[v];
      x.at[v] = scaled / (1.0f + expf(-scaled)) * g.at[v];
    }
    ((Vector<WIDTH> *)Y)[i] = x;
  }
}

void kernel(PARAMETERS) {
  int width = C % V == 0 ? V : 1;
  size_t count = (size_t)R * C / width;
  unsigned blocks = (unsigned)((count + (size_t)THREADS * EACH - 1) / ((size_t)THREADS * EACH));
  if (width == V) chain<V><<<blocks, THREADS>>>(X, scale, bias, G, Y, C, count);
  else chain<1><<<blocks, THREADS>>>(X, scale, bias, G, Y, C, count);
}
