/* What only the program that calls kernels asks of a device. */
#pragma once
extern "C" size_t tw_allocated(void);
inline cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
  *all = (size_t)1 << 32;
  return *left = *all - tw_allocated(), cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  return *milliseconds = 1.0f, cudaSuccess;
}
