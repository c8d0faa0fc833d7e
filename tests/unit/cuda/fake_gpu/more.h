/* What only the program that calls kernels asks of a device. */
#pragma once
inline cudaError_t cudaMemGetInfo(size_t *left, size_t *all) { return *left = *all = 256 << 10, cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  return *milliseconds = 1.0f, cudaSuccess;
}
