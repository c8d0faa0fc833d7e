// The right factor: a matrix whose rows lie one behind the other.
struct Right {
  const float *values;
  int column, columns;
  __device__ void choose(int, int first, int all) { column = first, columns = all; }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
    constexpr int WIDTH = VECTORS ? 4 : 1, ACROSS = TN / WIDTH;
#pragma unroll
    for (int i = threadIdx.x; i < TK * ACROSS; i += THREADS) {
      int t = i / ACROSS, c = i % ACROSS * WIDTH;
      bool there = column + c < columns && k + t < end;
      const float *from = there ? &values[(size_t)(k + t) * columns + column + c] : values;
      __pipeline_memcpy_async(&tile[t * RIGHT + c], from, 4 * WIDTH, there ? 0 : 4 * WIDTH);
    }
  }
};
