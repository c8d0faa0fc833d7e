#include <cuda_runtime.h>

// All steps in one kernel: a thread computes V neighbouring elements, in steps of the whole grid.
TUNE(THREADS, 256, 128, 512)
TUNE(V, 4, 1, 2)
TUNE(EACH, 1, 2, 4)           // times that a thread does so

template <int WIDTH> struct __align__(4 * WIDTH) Vector { float at[WIDTH]; };

template <int WIDTH> __global__ void __launch_bounds__(THREADS) elements({TAKEN}float *result, unsigned count) {
  for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
    Vector<WIDTH> found;
{LOADS}
#pragma unroll
    for (int v = 0; v < WIDTH; v++) {
      unsigned place = i * WIDTH + v;
{BODY}
      found.at[v] = {VALUE};
    }
    ((Vector<WIDTH> *)result)[i] = found;
  }
}

static void launch({TAKEN}float *result, unsigned count) {
  unsigned width = count % V == 0 ? V : 1;
  unsigned blocks = (count / width + THREADS * EACH - 1) / (THREADS * EACH);
  if (width == V) elements<V><<<blocks, THREADS>>>({PASSED}result, count / V);
  else elements<1><<<blocks, THREADS>>>({PASSED}result, count);
}
