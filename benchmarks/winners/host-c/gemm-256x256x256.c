typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline float v_sum(vf a) {
  a = a + __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  a = a + __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
  return a[0];
}

void kernel(const float A[256][256], const float B[256][256], float C[256][256]) {
  static _Alignas(64) float B_1[256][256];
  static _Alignas(64) float B_2[256][256];
  static _Alignas(64) float B_3[256][256];
  static _Alignas(64) float B_4[256][256];
  static _Alignas(64) float B_5[256][256];
  for (int at_9 = 0; at_9 < 252; at_9 += 6) {
    for (int at_10 = 0; at_10 < 256; at_10 += 4) {
      B_5[at_10][at_9] = B[at_9][at_10];
      B_5[at_10][at_9 + 1] = B[at_9 + 1][at_10];
      B_5[at_10][at_9 + 2] = B[at_9 + 2][at_10];
      B_5[at_10][at_9 + 3] = B[at_9 + 3][at_10];
      B_5[at_10][at_9 + 4] = B[at_9 + 4][at_10];
      B_5[at_10][at_9 + 5] = B[at_9 + 5][at_10];
      B_5[at_10 + 1][at_9] = B[at_9][at_10 + 1];
      B_5[at_10 + 1][at_9 + 1] = B[at_9 + 1][at_10 + 1];
      B_5[at_10 + 1][at_9 + 2] = B[at_9 + 2][at_10 + 1];
      B_5[at_10 + 1][at_9 + 3] = B[at_9 + 3][at_10 + 1];
      B_5[at_10 + 1][at_9 + 4] = B[at_9 + 4][at_10 + 1];
      B_5[at_10 + 1][at_9 + 5] = B[at_9 + 5][at_10 + 1];
      B_5[at_10 + 2][at_9] = B[at_9][at_10 + 2];
      B_5[at_10 + 2][at_9 + 1] = B[at_9 + 1][at_10 + 2];
      B_5[at_10 + 2][at_9 + 2] = B[at_9 + 2][at_10 + 2];
      B_5[at_10 + 2][at_9 + 3] = B[at_9 + 3][at_10 + 2];
      B_5[at_10 + 2][at_9 + 4] = B[at_9 + 4][at_10 + 2];
      B_5[at_10 + 2][at_9 + 5] = B[at_9 + 5][at_10 + 2];
      B_5[at_10 + 3][at_9] = B[at_9][at_10 + 3];
      B_5[at_10 + 3][at_9 + 1] = B[at_9 + 1][at_10 + 3];
      B_5[at_10 + 3][at_9 + 2] = B[at_9 + 2][at_10 + 3];
      B_5[at_10 + 3][at_9 + 3] = B[at_9 + 3][at_10 + 3];
      B_5[at_10 + 3][at_9 + 4] = B[at_9 + 4][at_10 + 3];
      B_5[at_10 + 3][at_9 + 5] = B[at_9 + 5][at_10 + 3];
    }
  }
  for (int at_9 = 252; at_9 < 256; at_9++) {
    for (int at_10 = 0; at_10 < 256; at_10++) {
      B_5[at_10][at_9] = B[at_9][at_10];
    }
  }
  for (int at_7 = 0; at_7 < 256; at_7 += 16) {
    for (int at_8 = 0; at_8 < 256; at_8++) {
      *(vf *)&B_4[at_8][at_7] = *(const vf *)&B_5[at_8][at_7];
    }
  }
  for (int at_5 = 0; at_5 < 256; at_5 += 128) {
    for (int at_6 = 0; at_6 < 256; at_6 += 4) {
      *(vf *)&B_3[at_6][at_5] = *(const vf *)&B_4[at_6][at_5];
      *(vf *)&B_3[at_6][at_5 + 16] = *(const vf *)&B_4[at_6][at_5 + 16];
      *(vf *)&B_3[at_6][at_5 + 32] = *(const vf *)&B_4[at_6][at_5 + 32];
      *(vf *)&B_3[at_6][at_5 + 48] = *(const vf *)&B_4[at_6][at_5 + 48];
      *(vf *)&B_3[at_6][at_5 + 64] = *(const vf *)&B_4[at_6][at_5 + 64];
      *(vf *)&B_3[at_6][at_5 + 80] = *(const vf *)&B_4[at_6][at_5 + 80];
      *(vf *)&B_3[at_6][at_5 + 96] = *(const vf *)&B_4[at_6][at_5 + 96];
      *(vf *)&B_3[at_6][at_5 + 112] = *(const vf *)&B_4[at_6][at_5 + 112];
      *(vf *)&B_3[at_6 + 1][at_5] = *(const vf *)&B_4[at_6 + 1][at_5];
      *(vf *)&B_3[at_6 + 1][at_5 + 16] = *(const vf *)&B_4[at_6 + 1][at_5 + 16];
      *(vf *)&B_3[at_6 + 1][at_5 + 32] = *(const vf *)&B_4[at_6 + 1][at_5 + 32];
      *(vf *)&B_3[at_6 + 1][at_5 + 48] = *(const vf *)&B_4[at_6 + 1][at_5 + 48];
      *(vf *)&B_3[at_6 + 1][at_5 + 64] = *(const vf *)&B_4[at_6 + 1][at_5 + 64];
      *(vf *)&B_3[at_6 + 1][at_5 + 80] = *(const vf *)&B_4[at_6 + 1][at_5 + 80];
      *(vf *)&B_3[at_6 + 1][at_5 + 96] = *(const vf *)&B_4[at_6 + 1][at_5 + 96];
      *(vf *)&B_3[at_6 + 1][at_5 + 112] = *(const vf *)&B_4[at_6 + 1][at_5 + 112];
      *(vf *)&B_3[at_6 + 2][at_5] = *(const vf *)&B_4[at_6 + 2][at_5];
      *(vf *)&B_3[at_6 + 2][at_5 + 16] = *(const vf *)&B_4[at_6 + 2][at_5 + 16];
      *(vf *)&B_3[at_6 + 2][at_5 + 32] = *(const vf *)&B_4[at_6 + 2][at_5 + 32];
      *(vf *)&B_3[at_6 + 2][at_5 + 48] = *(const vf *)&B_4[at_6 + 2][at_5 + 48];
      *(vf *)&B_3[at_6 + 2][at_5 + 64] = *(const vf *)&B_4[at_6 + 2][at_5 + 64];
      *(vf *)&B_3[at_6 + 2][at_5 + 80] = *(const vf *)&B_4[at_6 + 2][at_5 + 80];
      *(vf *)&B_3[at_6 + 2][at_5 + 96] = *(const vf *)&B_4[at_6 + 2][at_5 + 96];
      *(vf *)&B_3[at_6 + 2][at_5 + 112] = *(const vf *)&B_4[at_6 + 2][at_5 + 112];
      *(vf *)&B_3[at_6 + 3][at_5] = *(const vf *)&B_4[at_6 + 3][at_5];
      *(vf *)&B_3[at_6 + 3][at_5 + 16] = *(const vf *)&B_4[at_6 + 3][at_5 + 16];
      *(vf *)&B_3[at_6 + 3][at_5 + 32] = *(const vf *)&B_4[at_6 + 3][at_5 + 32];
      *(vf *)&B_3[at_6 + 3][at_5 + 48] = *(const vf *)&B_4[at_6 + 3][at_5 + 48];
      *(vf *)&B_3[at_6 + 3][at_5 + 64] = *(const vf *)&B_4[at_6 + 3][at_5 + 64];
      *(vf *)&B_3[at_6 + 3][at_5 + 80] = *(const vf *)&B_4[at_6 + 3][at_5 + 80];
      *(vf *)&B_3[at_6 + 3][at_5 + 96] = *(const vf *)&B_4[at_6 + 3][at_5 + 96];
      *(vf *)&B_3[at_6 + 3][at_5 + 112] = *(const vf *)&B_4[at_6 + 3][at_5 + 112];
    }
  }
  for (int at_3 = 0; at_3 < 256; at_3 += 16) {
    for (int at_4 = 0; at_4 < 256; at_4++) {
      *(vf *)&B_2[at_4][at_3] = *(const vf *)&B_3[at_4][at_3];
    }
  }
  for (int at_1 = 0; at_1 < 240; at_1 += 48) {
    for (int at_2 = 0; at_2 < 256; at_2++) {
      *(vf *)&B_1[at_2][at_1] = *(const vf *)&B_2[at_2][at_1];
      *(vf *)&B_1[at_2][at_1 + 16] = *(const vf *)&B_2[at_2][at_1 + 16];
      *(vf *)&B_1[at_2][at_1 + 32] = *(const vf *)&B_2[at_2][at_1 + 32];
    }
  }
  for (int at_1 = 240; at_1 < 256; at_1 += 16) {
    for (int at_2 = 0; at_2 < 256; at_2++) {
      *(vf *)&B_1[at_2][at_1] = *(const vf *)&B_2[at_2][at_1];
    }
  }
  for (int i = 0; i < 256; i++) {
    for (int j = 0; j < 256; j += 8) {
      float sum = 0.0f;
      float sum_2 = 0.0f;
      float sum_3 = 0.0f;
      float sum_4 = 0.0f;
      float sum_5 = 0.0f;
      float sum_6 = 0.0f;
      float sum_7 = 0.0f;
      float sum_8 = 0.0f;
      vf sum_1 = v_splat(0.0f);
      vf sum_1_1 = v_splat(0.0f);
      vf sum_1_2 = v_splat(0.0f);
      vf sum_1_3 = v_splat(0.0f);
      vf sum_1_4 = v_splat(0.0f);
      vf sum_1_5 = v_splat(0.0f);
      vf sum_1_6 = v_splat(0.0f);
      vf sum_1_7 = v_splat(0.0f);
      for (int k = 0; k < 256; k += 16) {
        sum_1 = sum_1 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j][k];
        sum_1_1 = sum_1_1 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 1][k];
        sum_1_2 = sum_1_2 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 2][k];
        sum_1_3 = sum_1_3 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 3][k];
        sum_1_4 = sum_1_4 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 4][k];
        sum_1_5 = sum_1_5 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 5][k];
        sum_1_6 = sum_1_6 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 6][k];
        sum_1_7 = sum_1_7 + *(const vf *)&A[i][k] * *(const vf *)&B_1[j + 7][k];
      }
      sum = sum + v_sum(sum_1);
      sum_2 = sum_2 + v_sum(sum_1_1);
      sum_3 = sum_3 + v_sum(sum_1_2);
      sum_4 = sum_4 + v_sum(sum_1_3);
      sum_5 = sum_5 + v_sum(sum_1_4);
      sum_6 = sum_6 + v_sum(sum_1_5);
      sum_7 = sum_7 + v_sum(sum_1_6);
      sum_8 = sum_8 + v_sum(sum_1_7);
      C[i][j] = sum;
      C[i][j + 1] = sum_2;
      C[i][j + 2] = sum_3;
      C[i][j + 3] = sum_4;
      C[i][j + 4] = sum_5;
      C[i][j + 5] = sum_6;
      C[i][j + 6] = sum_7;
      C[i][j + 7] = sum_8;
    }
  }
}
