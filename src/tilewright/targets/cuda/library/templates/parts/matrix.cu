// The right factor: a matrix whose rows follow one another. Those of neighbouring products are `step` elements apart.
struct Right {
  const float *values;
  size_t step;
  int column, columns;
  __device__ int left_of(int image) const { return image; }
  __device__ void choose(int image, int first, int all) { values += image * step, column = first, columns = all; }
  template <bool VECTORS> __device__ void load(float *tile, int k, int end) const {
    load_tile<VECTORS, TK, TN, RIGHT>(tile, values, k, end, column, columns, columns);
  }
};
