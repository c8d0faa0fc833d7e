constexpr int ACROSS = TN / (16 * FN), THREADS = TM * TN / (8 * FM * FN);

// Sums of a warp on tensor cores, which round factors to 11 binary digits (tf32).
struct Sums {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> at[FM][FN];
  __device__ int first_row() const { return threadIdx.x / 32 / ACROSS * 16 * FM; }
  __device__ int first_column() const { return threadIdx.x / 32 % ACROSS * 16 * FN; }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
      for (int j = 0; j < FN; j++) nvcuda::wmma::fill_fragment(at[i][j], 0.0f);
  }
  template <class F> static __device__ void load(F &values, const float *from, int row_length) {
    nvcuda::wmma::load_matrix_sync(values, from, row_length);
#pragma unroll
    for (int e = 0; e < values.num_elements; e++) values.x[e] = nvcuda::wmma::__float_to_tf32(values.x[e]);
  }
  __device__ void add(const float *a, const float *b) {
    using namespace nvcuda::wmma;
    a += first_row() * LEFT, b += first_column();
#pragma unroll
    for (int t = 0; t < TK; t += 8) {
      fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> right[FN];
#pragma unroll
      for (int j = 0; j < FN; j++) load(right[j], &b[t * RIGHT + 16 * j], RIGHT);
#pragma unroll
      for (int i = 0; i < FM; i++) {
        fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> left;
        load(left, &a[16 * i * LEFT + t], LEFT);
#pragma unroll
        for (int j = 0; j < FN; j++) mma_sync(at[i][j], left, right[j], at[i][j]);
      }
    }
  }
  __device__ void write(float *tiles, float *result, const Added &added, int row, int column, int rows, int columns) const {
    float *square = &tiles[threadIdx.x / 32 * 16 * 20];
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
      for (int j = 0; j < FN; j++) {
        nvcuda::wmma::store_matrix_sync(square, at[i][j], 20, nvcuda::wmma::mem_row_major);
        __syncwarp();
#pragma unroll
        for (int half = 0; half < 16; half += 8) {
          int r = threadIdx.x % 32 / 4 + half, c = threadIdx.x % 4 * 4;
          put(result, added, row + first_row() + 16 * i + r, column + first_column() + 16 * j + c, rows, columns,
              *(const float4 *)&square[r * 20 + c]);
        }
        __syncwarp();
      }
  }
};
