// The right factor: the transpose of a matrix, so that the terms of a sum are adjacent.
struct Right {
  const float *values;
  size_t step;
  int length, column, columns;
  __device__ int left_of(int image) const { return image; }
  __device__ void choose(int image, int first, int all) { values += image * step, column = first, columns = all; }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
#pragma unroll
    for (int i = threadIdx.x; i < TK * TN; i += THREADS) {
      int term = i % TK, c = i / TK;
      bool there = k + term < end && column + c < columns;
      const float *from = there ? &values[(size_t)(column + c) * length + k + term] : values;
      __pipeline_memcpy_async(&tile[term * RIGHT + c], from, 4, there ? 0 : 4);
    }
  }
};
