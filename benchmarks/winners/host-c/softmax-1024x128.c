#include <math.h>

typedef float vf __attribute__((vector_size(64), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(64), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

static inline vf v_max(vf a, vf b) {
  vi more = a > b;
  return (vf)(((vi)a & more) | ((vi)b & ~more));
}

static inline vf v_min(vf a, vf b) {
  vi less = a < b;
  return (vf)(((vi)a & less) | ((vi)b & ~less));
}

/* e to the power of each lane, within 2 units in the last place */
static inline vf v_exp(vf x) {
  const vf magic = (vf){0} + 12582912.0f;
  x = v_max(v_min(x, (vf){0} + 89.0f), (vf){0} - 104.0f);
  vf n = x * 1.44269504f + magic;
  n = n - magic;
  vf r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
  return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

static inline float v_sum(vf a) {
  a = a + __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  a = a + __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  a = a + __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  a = a + __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14});
  return a[0];
}

static inline float v_most(vf a) {
  a = v_max(a, __builtin_shuffle(a, (vi){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  a = v_max(a, __builtin_shuffle(a, (vi){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  a = v_max(a, __builtin_shuffle(a, (vi){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  a = v_max(a, __builtin_shuffle(a, (vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
  return a[0];
}

void kernel(const float X[1024][128], float Y[1024][128]) {
  for (int r = 0; r < 1023; r += 3) {
    float most = X[r][0];
    float most_1 = X[r + 1][0];
    float most_2 = X[r + 2][0];
    vf most_3 = v_splat(most);
    vf most_1_1 = v_splat(most_1);
    vf most_2_1 = v_splat(most_2);
    vf most_3_1 = most_3;
    vf most_1_1_1 = most_1_1;
    vf most_2_1_1 = most_2_1;
    vf most_3_2 = most_3;
    vf most_1_1_2 = most_1_1;
    vf most_2_1_2 = most_2_1;
    vf most_3_3 = most_3;
    vf most_1_1_3 = most_1_1;
    vf most_2_1_3 = most_2_1;
    for (int c = 0; c < 128; c += 64) {
      most_3 = v_max(most_3, *(const vf *)&X[r][c]);
      most_1_1 = v_max(most_1_1, *(const vf *)&X[r + 1][c]);
      most_2_1 = v_max(most_2_1, *(const vf *)&X[r + 2][c]);
      most_3_1 = v_max(most_3_1, *(const vf *)&X[r][c + 16]);
      most_1_1_1 = v_max(most_1_1_1, *(const vf *)&X[r + 1][c + 16]);
      most_2_1_1 = v_max(most_2_1_1, *(const vf *)&X[r + 2][c + 16]);
      most_3_2 = v_max(most_3_2, *(const vf *)&X[r][c + 32]);
      most_1_1_2 = v_max(most_1_1_2, *(const vf *)&X[r + 1][c + 32]);
      most_2_1_2 = v_max(most_2_1_2, *(const vf *)&X[r + 2][c + 32]);
      most_3_3 = v_max(most_3_3, *(const vf *)&X[r][c + 48]);
      most_1_1_3 = v_max(most_1_1_3, *(const vf *)&X[r + 1][c + 48]);
      most_2_1_3 = v_max(most_2_1_3, *(const vf *)&X[r + 2][c + 48]);
    }
    most_3 = v_max(most_3, most_3_1);
    most_1_1 = v_max(most_1_1, most_1_1_1);
    most_2_1 = v_max(most_2_1, most_2_1_1);
    most_3 = v_max(most_3, most_3_2);
    most_1_1 = v_max(most_1_1, most_1_1_2);
    most_2_1 = v_max(most_2_1, most_2_1_2);
    most_3 = v_max(most_3, most_3_3);
    most_1_1 = v_max(most_1_1, most_1_1_3);
    most_2_1 = v_max(most_2_1, most_2_1_3);
    most = fmaxf(most, v_most(most_3));
    most_1 = fmaxf(most_1, v_most(most_1_1));
    most_2 = fmaxf(most_2, v_most(most_2_1));
    float sum = 0.0f;
    float sum_2 = 0.0f;
    float sum_3 = 0.0f;
    vf sum_1 = v_splat(0.0f);
    vf sum_1_1 = v_splat(0.0f);
    vf sum_1_2 = v_splat(0.0f);
    for (int c = 0; c < 128; c += 16) {
      *(vf *)&Y[r][c] = v_exp(*(const vf *)&X[r][c] - most);
      *(vf *)&Y[r + 1][c] = v_exp(*(const vf *)&X[r + 1][c] - most_1);
      *(vf *)&Y[r + 2][c] = v_exp(*(const vf *)&X[r + 2][c] - most_2);
      sum_1 = sum_1 + *(const vf *)&Y[r][c];
      sum_1_1 = sum_1_1 + *(const vf *)&Y[r + 1][c];
      sum_1_2 = sum_1_2 + *(const vf *)&Y[r + 2][c];
    }
    sum = sum + v_sum(sum_1);
    sum_2 = sum_2 + v_sum(sum_1_1);
    sum_3 = sum_3 + v_sum(sum_1_2);
    float over_1 = 1.0f / sum;
    float over_1_1 = 1.0f / sum_2;
    float over_1_2 = 1.0f / sum_3;
    for (int c = 0; c < 128; c += 64) {
      Y[r][c] = Y[r][c] * over_1;
      Y[r + 1][c] = Y[r + 1][c] * over_1_1;
      Y[r + 2][c] = Y[r + 2][c] * over_1_2;
      Y[r][c + 1] = Y[r][c + 1] * over_1;
      Y[r + 1][c + 1] = Y[r + 1][c + 1] * over_1_1;
      Y[r + 2][c + 1] = Y[r + 2][c + 1] * over_1_2;
      Y[r][c + 2] = Y[r][c + 2] * over_1;
      Y[r + 1][c + 2] = Y[r + 1][c + 2] * over_1_1;
      Y[r + 2][c + 2] = Y[r + 2][c + 2] * over_1_2;
      Y[r][c + 3] = Y[r][c + 3] * over_1;
      Y[r + 1][c + 3] = Y[r + 1][c + 3] * over_1_1;
      Y[r + 2][c + 3] = Y[r + 2][c + 3] * over_1_2;
      Y[r][c + 4] = Y[r][c + 4] * over_1;
      Y[r + 1][c + 4] = Y[r + 1][c + 4] * over_1_1;
      Y[r + 2][c + 4] = Y[r + 2][c + 4] * over_1_2;
      Y[r][c + 5] = Y[r][c + 5] * over_1;
      Y[r + 1][c + 5] = Y[r + 1][c + 5] * over_1_1;
      Y[r + 2][c + 5] = Y[r + 2][c + 5] * over_1_2;
      Y[r][c + 6] = Y[r][c + 6] * over_1;
      Y[r + 1][c + 6] = Y[r + 1][c + 6] * over_1_1;
      Y[r + 2][c + 6] = Y[r + 2][c + 6] * over_1_2;
      Y[r][c + 7] = Y[r][c + 7] * over_1;
      Y[r + 1][c + 7] = Y[r + 1][c + 7] * over_1_1;
      Y[r + 2][c + 7] = Y[r + 2][c + 7] * over_1_2;
      Y[r][c + 8] = Y[r][c + 8] * over_1;
      Y[r + 1][c + 8] = Y[r + 1][c + 8] * over_1_1;
      Y[r + 2][c + 8] = Y[r + 2][c + 8] * over_1_2;
      Y[r][c + 8 + 1] = Y[r][c + 8 + 1] * over_1;
      Y[r + 1][c + 8 + 1] = Y[r + 1][c + 8 + 1] * over_1_1;
      Y[r + 2][c + 8 + 1] = Y[r + 2][c + 8 + 1] * over_1_2;
      Y[r][c + 8 + 2] = Y[r][c + 8 + 2] * over_1;
      Y[r + 1][c + 8 + 2] = Y[r + 1][c + 8 + 2] * over_1_1;
      Y[r + 2][c + 8 + 2] = Y[r + 2][c + 8 + 2] * over_1_2;
      Y[r][c + 8 + 3] = Y[r][c + 8 + 3] * over_1;
      Y[r + 1][c + 8 + 3] = Y[r + 1][c + 8 + 3] * over_1_1;
      Y[r + 2][c + 8 + 3] = Y[r + 2][c + 8 + 3] * over_1_2;
      Y[r][c + 8 + 4] = Y[r][c + 8 + 4] * over_1;
      Y[r + 1][c + 8 + 4] = Y[r + 1][c + 8 + 4] * over_1_1;
      Y[r + 2][c + 8 + 4] = Y[r + 2][c + 8 + 4] * over_1_2;
      Y[r][c + 8 + 5] = Y[r][c + 8 + 5] * over_1;
      Y[r + 1][c + 8 + 5] = Y[r + 1][c + 8 + 5] * over_1_1;
      Y[r + 2][c + 8 + 5] = Y[r + 2][c + 8 + 5] * over_1_2;
      Y[r][c + 8 + 6] = Y[r][c + 8 + 6] * over_1;
      Y[r + 1][c + 8 + 6] = Y[r + 1][c + 8 + 6] * over_1_1;
      Y[r + 2][c + 8 + 6] = Y[r + 2][c + 8 + 6] * over_1_2;
      Y[r][c + 8 + 7] = Y[r][c + 8 + 7] * over_1;
      Y[r + 1][c + 8 + 7] = Y[r + 1][c + 8 + 7] * over_1_1;
      Y[r + 2][c + 8 + 7] = Y[r + 2][c + 8 + 7] * over_1_2;
      Y[r][c + 16] = Y[r][c + 16] * over_1;
      Y[r + 1][c + 16] = Y[r + 1][c + 16] * over_1_1;
      Y[r + 2][c + 16] = Y[r + 2][c + 16] * over_1_2;
      Y[r][c + 16 + 1] = Y[r][c + 16 + 1] * over_1;
      Y[r + 1][c + 16 + 1] = Y[r + 1][c + 16 + 1] * over_1_1;
      Y[r + 2][c + 16 + 1] = Y[r + 2][c + 16 + 1] * over_1_2;
      Y[r][c + 16 + 2] = Y[r][c + 16 + 2] * over_1;
      Y[r + 1][c + 16 + 2] = Y[r + 1][c + 16 + 2] * over_1_1;
      Y[r + 2][c + 16 + 2] = Y[r + 2][c + 16 + 2] * over_1_2;
      Y[r][c + 16 + 3] = Y[r][c + 16 + 3] * over_1;
      Y[r + 1][c + 16 + 3] = Y[r + 1][c + 16 + 3] * over_1_1;
      Y[r + 2][c + 16 + 3] = Y[r + 2][c + 16 + 3] * over_1_2;
      Y[r][c + 16 + 4] = Y[r][c + 16 + 4] * over_1;
      Y[r + 1][c + 16 + 4] = Y[r + 1][c + 16 + 4] * over_1_1;
      Y[r + 2][c + 16 + 4] = Y[r + 2][c + 16 + 4] * over_1_2;
      Y[r][c + 16 + 5] = Y[r][c + 16 + 5] * over_1;
      Y[r + 1][c + 16 + 5] = Y[r + 1][c + 16 + 5] * over_1_1;
      Y[r + 2][c + 16 + 5] = Y[r + 2][c + 16 + 5] * over_1_2;
      Y[r][c + 16 + 6] = Y[r][c + 16 + 6] * over_1;
      Y[r + 1][c + 16 + 6] = Y[r + 1][c + 16 + 6] * over_1_1;
      Y[r + 2][c + 16 + 6] = Y[r + 2][c + 16 + 6] * over_1_2;
      Y[r][c + 16 + 7] = Y[r][c + 16 + 7] * over_1;
      Y[r + 1][c + 16 + 7] = Y[r + 1][c + 16 + 7] * over_1_1;
      Y[r + 2][c + 16 + 7] = Y[r + 2][c + 16 + 7] * over_1_2;
      Y[r][c + 24] = Y[r][c + 24] * over_1;
      Y[r + 1][c + 24] = Y[r + 1][c + 24] * over_1_1;
      Y[r + 2][c + 24] = Y[r + 2][c + 24] * over_1_2;
      Y[r][c + 24 + 1] = Y[r][c + 24 + 1] * over_1;
      Y[r + 1][c + 24 + 1] = Y[r + 1][c + 24 + 1] * over_1_1;
      Y[r + 2][c + 24 + 1] = Y[r + 2][c + 24 + 1] * over_1_2;
      Y[r][c + 24 + 2] = Y[r][c + 24 + 2] * over_1;
      Y[r + 1][c + 24 + 2] = Y[r + 1][c + 24 + 2] * over_1_1;
      Y[r + 2][c + 24 + 2] = Y[r + 2][c + 24 + 2] * over_1_2;
      Y[r][c + 24 + 3] = Y[r][c + 24 + 3] * over_1;
      Y[r + 1][c + 24 + 3] = Y[r + 1][c + 24 + 3] * over_1_1;
      Y[r + 2][c + 24 + 3] = Y[r + 2][c + 24 + 3] * over_1_2;
      Y[r][c + 24 + 4] = Y[r][c + 24 + 4] * over_1;
      Y[r + 1][c + 24 + 4] = Y[r + 1][c + 24 + 4] * over_1_1;
      Y[r + 2][c + 24 + 4] = Y[r + 2][c + 24 + 4] * over_1_2;
      Y[r][c + 24 + 5] = Y[r][c + 24 + 5] * over_1;
      Y[r + 1][c + 24 + 5] = Y[r + 1][c + 24 + 5] * over_1_1;
      Y[r + 2][c + 24 + 5] = Y[r + 2][c + 24 + 5] * over_1_2;
      Y[r][c + 24 + 6] = Y[r][c + 24 + 6] * over_1;
      Y[r + 1][c + 24 + 6] = Y[r + 1][c + 24 + 6] * over_1_1;
      Y[r + 2][c + 24 + 6] = Y[r + 2][c + 24 + 6] * over_1_2;
      Y[r][c + 24 + 7] = Y[r][c + 24 + 7] * over_1;
      Y[r + 1][c + 24 + 7] = Y[r + 1][c + 24 + 7] * over_1_1;
      Y[r + 2][c + 24 + 7] = Y[r + 2][c + 24 + 7] * over_1_2;
      Y[r][c + 32] = Y[r][c + 32] * over_1;
      Y[r + 1][c + 32] = Y[r + 1][c + 32] * over_1_1;
      Y[r + 2][c + 32] = Y[r + 2][c + 32] * over_1_2;
      Y[r][c + 32 + 1] = Y[r][c + 32 + 1] * over_1;
      Y[r + 1][c + 32 + 1] = Y[r + 1][c + 32 + 1] * over_1_1;
      Y[r + 2][c + 32 + 1] = Y[r + 2][c + 32 + 1] * over_1_2;
      Y[r][c + 32 + 2] = Y[r][c + 32 + 2] * over_1;
      Y[r + 1][c + 32 + 2] = Y[r + 1][c + 32 + 2] * over_1_1;
      Y[r + 2][c + 32 + 2] = Y[r + 2][c + 32 + 2] * over_1_2;
      Y[r][c + 32 + 3] = Y[r][c + 32 + 3] * over_1;
      Y[r + 1][c + 32 + 3] = Y[r + 1][c + 32 + 3] * over_1_1;
      Y[r + 2][c + 32 + 3] = Y[r + 2][c + 32 + 3] * over_1_2;
      Y[r][c + 32 + 4] = Y[r][c + 32 + 4] * over_1;
      Y[r + 1][c + 32 + 4] = Y[r + 1][c + 32 + 4] * over_1_1;
      Y[r + 2][c + 32 + 4] = Y[r + 2][c + 32 + 4] * over_1_2;
      Y[r][c + 32 + 5] = Y[r][c + 32 + 5] * over_1;
      Y[r + 1][c + 32 + 5] = Y[r + 1][c + 32 + 5] * over_1_1;
      Y[r + 2][c + 32 + 5] = Y[r + 2][c + 32 + 5] * over_1_2;
      Y[r][c + 32 + 6] = Y[r][c + 32 + 6] * over_1;
      Y[r + 1][c + 32 + 6] = Y[r + 1][c + 32 + 6] * over_1_1;
      Y[r + 2][c + 32 + 6] = Y[r + 2][c + 32 + 6] * over_1_2;
      Y[r][c + 32 + 7] = Y[r][c + 32 + 7] * over_1;
      Y[r + 1][c + 32 + 7] = Y[r + 1][c + 32 + 7] * over_1_1;
      Y[r + 2][c + 32 + 7] = Y[r + 2][c + 32 + 7] * over_1_2;
      Y[r][c + 40] = Y[r][c + 40] * over_1;
      Y[r + 1][c + 40] = Y[r + 1][c + 40] * over_1_1;
      Y[r + 2][c + 40] = Y[r + 2][c + 40] * over_1_2;
      Y[r][c + 40 + 1] = Y[r][c + 40 + 1] * over_1;
      Y[r + 1][c + 40 + 1] = Y[r + 1][c + 40 + 1] * over_1_1;
      Y[r + 2][c + 40 + 1] = Y[r + 2][c + 40 + 1] * over_1_2;
      Y[r][c + 40 + 2] = Y[r][c + 40 + 2] * over_1;
      Y[r + 1][c + 40 + 2] = Y[r + 1][c + 40 + 2] * over_1_1;
      Y[r + 2][c + 40 + 2] = Y[r + 2][c + 40 + 2] * over_1_2;
      Y[r][c + 40 + 3] = Y[r][c + 40 + 3] * over_1;
      Y[r + 1][c + 40 + 3] = Y[r + 1][c + 40 + 3] * over_1_1;
      Y[r + 2][c + 40 + 3] = Y[r + 2][c + 40 + 3] * over_1_2;
      Y[r][c + 40 + 4] = Y[r][c + 40 + 4] * over_1;
      Y[r + 1][c + 40 + 4] = Y[r + 1][c + 40 + 4] * over_1_1;
      Y[r + 2][c + 40 + 4] = Y[r + 2][c + 40 + 4] * over_1_2;
      Y[r][c + 40 + 5] = Y[r][c + 40 + 5] * over_1;
      Y[r + 1][c + 40 + 5] = Y[r + 1][c + 40 + 5] * over_1_1;
      Y[r + 2][c + 40 + 5] = Y[r + 2][c + 40 + 5] * over_1_2;
      Y[r][c + 40 + 6] = Y[r][c + 40 + 6] * over_1;
      Y[r + 1][c + 40 + 6] = Y[r + 1][c + 40 + 6] * over_1_1;
      Y[r + 2][c + 40 + 6] = Y[r + 2][c + 40 + 6] * over_1_2;
      Y[r][c + 40 + 7] = Y[r][c + 40 + 7] * over_1;
      Y[r + 1][c + 40 + 7] = Y[r + 1][c + 40 + 7] * over_1_1;
      Y[r + 2][c + 40 + 7] = Y[r + 2][c + 40 + 7] * over_1_2;
      Y[r][c + 48] = Y[r][c + 48] * over_1;
      Y[r + 1][c + 48] = Y[r + 1][c + 48] * over_1_1;
      Y[r + 2][c + 48] = Y[r + 2][c + 48] * over_1_2;
      Y[r][c + 48 + 1] = Y[r][c + 48 + 1] * over_1;
      Y[r + 1][c + 48 + 1] = Y[r + 1][c + 48 + 1] * over_1_1;
      Y[r + 2][c + 48 + 1] = Y[r + 2][c + 48 + 1] * over_1_2;
      Y[r][c + 48 + 2] = Y[r][c + 48 + 2] * over_1;
      Y[r + 1][c + 48 + 2] = Y[r + 1][c + 48 + 2] * over_1_1;
      Y[r + 2][c + 48 + 2] = Y[r + 2][c + 48 + 2] * over_1_2;
      Y[r][c + 48 + 3] = Y[r][c + 48 + 3] * over_1;
      Y[r + 1][c + 48 + 3] = Y[r + 1][c + 48 + 3] * over_1_1;
      Y[r + 2][c + 48 + 3] = Y[r + 2][c + 48 + 3] * over_1_2;
      Y[r][c + 48 + 4] = Y[r][c + 48 + 4] * over_1;
      Y[r + 1][c + 48 + 4] = Y[r + 1][c + 48 + 4] * over_1_1;
      Y[r + 2][c + 48 + 4] = Y[r + 2][c + 48 + 4] * over_1_2;
      Y[r][c + 48 + 5] = Y[r][c + 48 + 5] * over_1;
      Y[r + 1][c + 48 + 5] = Y[r + 1][c + 48 + 5] * over_1_1;
      Y[r + 2][c + 48 + 5] = Y[r + 2][c + 48 + 5] * over_1_2;
      Y[r][c + 48 + 6] = Y[r][c + 48 + 6] * over_1;
      Y[r + 1][c + 48 + 6] = Y[r + 1][c + 48 + 6] * over_1_1;
      Y[r + 2][c + 48 + 6] = Y[r + 2][c + 48 + 6] * over_1_2;
      Y[r][c + 48 + 7] = Y[r][c + 48 + 7] * over_1;
      Y[r + 1][c + 48 + 7] = Y[r + 1][c + 48 + 7] * over_1_1;
      Y[r + 2][c + 48 + 7] = Y[r + 2][c + 48 + 7] * over_1_2;
      Y[r][c + 56] = Y[r][c + 56] * over_1;
      Y[r + 1][c + 56] = Y[r + 1][c + 56] * over_1_1;
      Y[r + 2][c + 56] = Y[r + 2][c + 56] * over_1_2;
      Y[r][c + 56 + 1] = Y[r][c + 56 + 1] * over_1;
      Y[r + 1][c + 56 + 1] = Y[r + 1][c + 56 + 1] * over_1_1;
      Y[r + 2][c + 56 + 1] = Y[r + 2][c + 56 + 1] * over_1_2;
      Y[r][c + 56 + 2] = Y[r][c + 56 + 2] * over_1;
      Y[r + 1][c + 56 + 2] = Y[r + 1][c + 56 + 2] * over_1_1;
      Y[r + 2][c + 56 + 2] = Y[r + 2][c + 56 + 2] * over_1_2;
      Y[r][c + 56 + 3] = Y[r][c + 56 + 3] * over_1;
      Y[r + 1][c + 56 + 3] = Y[r + 1][c + 56 + 3] * over_1_1;
      Y[r + 2][c + 56 + 3] = Y[r + 2][c + 56 + 3] * over_1_2;
      Y[r][c + 56 + 4] = Y[r][c + 56 + 4] * over_1;
      Y[r + 1][c + 56 + 4] = Y[r + 1][c + 56 + 4] * over_1_1;
      Y[r + 2][c + 56 + 4] = Y[r + 2][c + 56 + 4] * over_1_2;
      Y[r][c + 56 + 5] = Y[r][c + 56 + 5] * over_1;
      Y[r + 1][c + 56 + 5] = Y[r + 1][c + 56 + 5] * over_1_1;
      Y[r + 2][c + 56 + 5] = Y[r + 2][c + 56 + 5] * over_1_2;
      Y[r][c + 56 + 6] = Y[r][c + 56 + 6] * over_1;
      Y[r + 1][c + 56 + 6] = Y[r + 1][c + 56 + 6] * over_1_1;
      Y[r + 2][c + 56 + 6] = Y[r + 2][c + 56 + 6] * over_1_2;
      Y[r][c + 56 + 7] = Y[r][c + 56 + 7] * over_1;
      Y[r + 1][c + 56 + 7] = Y[r + 1][c + 56 + 7] * over_1_1;
      Y[r + 2][c + 56 + 7] = Y[r + 2][c + 56 + 7] * over_1_2;
    }
  }
  for (int r = 1023; r < 1024; r++) {
    float most = X[r][0];
    float most_4 = most;
    float most_5 = most;
    float most_6 = most;
    for (int c = 0; c < 128; c += 4) {
      most = fmaxf(most, X[r][c]);
      most_4 = fmaxf(most_4, X[r][c + 1]);
      most_5 = fmaxf(most_5, X[r][c + 2]);
      most_6 = fmaxf(most_6, X[r][c + 3]);
    }
    most = fmaxf(most, most_4);
    most = fmaxf(most, most_5);
    most = fmaxf(most, most_6);
    float sum = 0.0f;
    vf sum_1 = v_splat(0.0f);
    vf sum_1_3 = v_splat(0.0f);
    vf sum_1_4 = v_splat(0.0f);
    vf sum_1_5 = v_splat(0.0f);
    for (int c = 0; c < 128; c += 64) {
      *(vf *)&Y[r][c] = v_exp(*(const vf *)&X[r][c] - most);
      sum_1 = sum_1 + *(const vf *)&Y[r][c];
      *(vf *)&Y[r][c + 16] = v_exp(*(const vf *)&X[r][c + 16] - most);
      sum_1_3 = sum_1_3 + *(const vf *)&Y[r][c + 16];
      *(vf *)&Y[r][c + 32] = v_exp(*(const vf *)&X[r][c + 32] - most);
      sum_1_4 = sum_1_4 + *(const vf *)&Y[r][c + 32];
      *(vf *)&Y[r][c + 48] = v_exp(*(const vf *)&X[r][c + 48] - most);
      sum_1_5 = sum_1_5 + *(const vf *)&Y[r][c + 48];
    }
    sum_1 = sum_1 + sum_1_3;
    sum_1 = sum_1 + sum_1_4;
    sum_1 = sum_1 + sum_1_5;
    sum = sum + v_sum(sum_1);
    float over_1 = 1.0f / sum;
    for (int c = 0; c < 128; c += 16) {
      *(vf *)&Y[r][c] = *(const vf *)&Y[r][c] * over_1;
    }
  }
}
