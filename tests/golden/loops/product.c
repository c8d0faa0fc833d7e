typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

void kernel(const float A[5][6], const float B[6][10], float C[5][10]) {
  for (int i = 0; i < 4; i += 2) {
    for (int j = 0; j < 8; j += 4) {
      vf sum = v_splat(0.0f);
      vf sum_1 = v_splat(0.0f);
      for (int k = 0; k < 6; k++) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
        sum_1 = sum_1 + A[i + 1][k] * *(const vf *)&B[k][j];
      }
      *(vf *)&C[i][j] = sum;
      *(vf *)&C[i + 1][j] = sum_1;
    }
    for (int j = 6; j < 10; j += 4) {
      vf sum = v_splat(0.0f);
      vf sum_1 = v_splat(0.0f);
      for (int k = 0; k < 6; k++) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
        sum_1 = sum_1 + A[i + 1][k] * *(const vf *)&B[k][j];
      }
      *(vf *)&C[i][j] = sum;
      *(vf *)&C[i + 1][j] = sum_1;
    }
  }
  for (int i = 4; i < 5; i++) {
    for (int j = 0; j < 8; j += 4) {
      vf sum = v_splat(0.0f);
      for (int k = 0; k < 6; k++) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
      }
      *(vf *)&C[i][j] = sum;
    }
    for (int j = 6; j < 10; j += 4) {
      vf sum = v_splat(0.0f);
      for (int k = 0; k < 6; k++) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
      }
      *(vf *)&C[i][j] = sum;
    }
  }
}
