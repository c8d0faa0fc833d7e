typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

void kernel(const float A[128][128], const float B[128][128], float C[128][128]) {
  for (int i = 0; i < 126; i += 3) {
    for (int j = 0; j < 128; j += 32) {
      vf sum = v_splat(0.0f);
      vf sum_5 = v_splat(0.0f);
      vf sum_6 = v_splat(0.0f);
      vf sum_4 = v_splat(0.0f);
      vf sum_4_1 = v_splat(0.0f);
      vf sum_4_2 = v_splat(0.0f);
      vf sum_1 = v_splat(0.0f);
      vf sum_1_2 = v_splat(0.0f);
      vf sum_1_3 = v_splat(0.0f);
      vf sum_1_1 = v_splat(0.0f);
      vf sum_1_1_1 = v_splat(0.0f);
      vf sum_1_1_2 = v_splat(0.0f);
      vf sum_2 = v_splat(0.0f);
      vf sum_2_2 = v_splat(0.0f);
      vf sum_2_3 = v_splat(0.0f);
      vf sum_2_1 = v_splat(0.0f);
      vf sum_2_1_1 = v_splat(0.0f);
      vf sum_2_1_2 = v_splat(0.0f);
      vf sum_3 = v_splat(0.0f);
      vf sum_3_2 = v_splat(0.0f);
      vf sum_3_3 = v_splat(0.0f);
      vf sum_3_1 = v_splat(0.0f);
      vf sum_3_1_1 = v_splat(0.0f);
      vf sum_3_1_2 = v_splat(0.0f);
      for (int k = 0; k < 128; k += 4) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
        sum_5 = sum_5 + A[i + 1][k] * *(const vf *)&B[k][j];
        sum_6 = sum_6 + A[i + 2][k] * *(const vf *)&B[k][j];
        sum_4 = sum_4 + A[i][k] * *(const vf *)&B[k][j + 16];
        sum_4_1 = sum_4_1 + A[i + 1][k] * *(const vf *)&B[k][j + 16];
        sum_4_2 = sum_4_2 + A[i + 2][k] * *(const vf *)&B[k][j + 16];
        sum_1 = sum_1 + A[i][k + 1] * *(const vf *)&B[k + 1][j];
        sum_1_2 = sum_1_2 + A[i + 1][k + 1] * *(const vf *)&B[k + 1][j];
        sum_1_3 = sum_1_3 + A[i + 2][k + 1] * *(const vf *)&B[k + 1][j];
        sum_1_1 = sum_1_1 + A[i][k + 1] * *(const vf *)&B[k + 1][j + 16];
        sum_1_1_1 = sum_1_1_1 + A[i + 1][k + 1] * *(const vf *)&B[k + 1][j + 16];
        sum_1_1_2 = sum_1_1_2 + A[i + 2][k + 1] * *(const vf *)&B[k + 1][j + 16];
        sum_2 = sum_2 + A[i][k + 2] * *(const vf *)&B[k + 2][j];
        sum_2_2 = sum_2_2 + A[i + 1][k + 2] * *(const vf *)&B[k + 2][j];
        sum_2_3 = sum_2_3 + A[i + 2][k + 2] * *(const vf *)&B[k + 2][j];
        sum_2_1 = sum_2_1 + A[i][k + 2] * *(const vf *)&B[k + 2][j + 16];
        sum_2_1_1 = sum_2_1_1 + A[i + 1][k + 2] * *(const vf *)&B[k + 2][j + 16];
        sum_2_1_2 = sum_2_1_2 + A[i + 2][k + 2] * *(const vf *)&B[k + 2][j + 16];
        sum_3 = sum_3 + A[i][k + 3] * *(const vf *)&B[k + 3][j];
        sum_3_2 = sum_3_2 + A[i + 1][k + 3] * *(const vf *)&B[k + 3][j];
        sum_3_3 = sum_3_3 + A[i + 2][k + 3] * *(const vf *)&B[k + 3][j];
        sum_3_1 = sum_3_1 + A[i][k + 3] * *(const vf *)&B[k + 3][j + 16];
        sum_3_1_1 = sum_3_1_1 + A[i + 1][k + 3] * *(const vf *)&B[k + 3][j + 16];
        sum_3_1_2 = sum_3_1_2 + A[i + 2][k + 3] * *(const vf *)&B[k + 3][j + 16];
      }
      sum = sum + sum_1;
      sum_5 = sum_5 + sum_1_2;
      sum_6 = sum_6 + sum_1_3;
      sum_4 = sum_4 + sum_1_1;
      sum_4_1 = sum_4_1 + sum_1_1_1;
      sum_4_2 = sum_4_2 + sum_1_1_2;
      sum = sum + sum_2;
      sum_5 = sum_5 + sum_2_2;
      sum_6 = sum_6 + sum_2_3;
      sum_4 = sum_4 + sum_2_1;
      sum_4_1 = sum_4_1 + sum_2_1_1;
      sum_4_2 = sum_4_2 + sum_2_1_2;
      sum = sum + sum_3;
      sum_5 = sum_5 + sum_3_2;
      sum_6 = sum_6 + sum_3_3;
      sum_4 = sum_4 + sum_3_1;
      sum_4_1 = sum_4_1 + sum_3_1_1;
      sum_4_2 = sum_4_2 + sum_3_1_2;
      *(vf *)&C[i][j] = sum;
      *(vf *)&C[i + 1][j] = sum_5;
      *(vf *)&C[i + 2][j] = sum_6;
      *(vf *)&C[i][j + 16] = sum_4;
      *(vf *)&C[i + 1][j + 16] = sum_4_1;
      *(vf *)&C[i + 2][j + 16] = sum_4_2;
    }
  }
  for (int i = 126; i < 128; i++) {
    for (int j = 0; j < 128; j += 64) {
      vf sum = v_splat(0.0f);
      vf sum_7 = v_splat(0.0f);
      vf sum_4 = v_splat(0.0f);
      vf sum_4_3 = v_splat(0.0f);
      vf sum_1 = v_splat(0.0f);
      vf sum_1_4 = v_splat(0.0f);
      vf sum_1_1 = v_splat(0.0f);
      vf sum_1_1_3 = v_splat(0.0f);
      vf sum_2 = v_splat(0.0f);
      vf sum_2_4 = v_splat(0.0f);
      vf sum_2_1 = v_splat(0.0f);
      vf sum_2_1_3 = v_splat(0.0f);
      vf sum_3 = v_splat(0.0f);
      vf sum_3_4 = v_splat(0.0f);
      vf sum_3_1 = v_splat(0.0f);
      vf sum_3_1_3 = v_splat(0.0f);
      for (int k = 0; k < 128; k += 4) {
        sum = sum + A[i][k] * *(const vf *)&B[k][j];
        sum_7 = sum_7 + A[i][k] * *(const vf *)&B[k][j + 32];
        sum_4 = sum_4 + A[i][k] * *(const vf *)&B[k][j + 16];
        sum_4_3 = sum_4_3 + A[i][k] * *(const vf *)&B[k][j + 32 + 16];
        sum_1 = sum_1 + A[i][k + 1] * *(const vf *)&B[k + 1][j];
        sum_1_4 = sum_1_4 + A[i][k + 1] * *(const vf *)&B[k + 1][j + 32];
        sum_1_1 = sum_1_1 + A[i][k + 1] * *(const vf *)&B[k + 1][j + 16];
        sum_1_1_3 = sum_1_1_3 + A[i][k + 1] * *(const vf *)&B[k + 1][j + 32 + 16];
        sum_2 = sum_2 + A[i][k + 2] * *(const vf *)&B[k + 2][j];
        sum_2_4 = sum_2_4 + A[i][k + 2] * *(const vf *)&B[k + 2][j + 32];
        sum_2_1 = sum_2_1 + A[i][k + 2] * *(const vf *)&B[k + 2][j + 16];
        sum_2_1_3 = sum_2_1_3 + A[i][k + 2] * *(const vf *)&B[k + 2][j + 32 + 16];
        sum_3 = sum_3 + A[i][k + 3] * *(const vf *)&B[k + 3][j];
        sum_3_4 = sum_3_4 + A[i][k + 3] * *(const vf *)&B[k + 3][j + 32];
        sum_3_1 = sum_3_1 + A[i][k + 3] * *(const vf *)&B[k + 3][j + 16];
        sum_3_1_3 = sum_3_1_3 + A[i][k + 3] * *(const vf *)&B[k + 3][j + 32 + 16];
      }
      sum = sum + sum_1;
      sum_7 = sum_7 + sum_1_4;
      sum_4 = sum_4 + sum_1_1;
      sum_4_3 = sum_4_3 + sum_1_1_3;
      sum = sum + sum_2;
      sum_7 = sum_7 + sum_2_4;
      sum_4 = sum_4 + sum_2_1;
      sum_4_3 = sum_4_3 + sum_2_1_3;
      sum = sum + sum_3;
      sum_7 = sum_7 + sum_3_4;
      sum_4 = sum_4 + sum_3_1;
      sum_4_3 = sum_4_3 + sum_3_1_3;
      *(vf *)&C[i][j] = sum;
      *(vf *)&C[i][j + 32] = sum_7;
      *(vf *)&C[i][j + 16] = sum_4;
      *(vf *)&C[i][j + 32 + 16] = sum_4_3;
    }
  }
}
