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

void kernel(const float Q[256][64], const float K[256][64], const float V[256][64], float O[256][64]) {
  float scores[256];
  for (int i = 0; i < 256; i++) {
    for (int j = 0; j < 252; j += 6) {
      float dot = 0.0f;
      float dot_2 = 0.0f;
      float dot_3 = 0.0f;
      float dot_4 = 0.0f;
      float dot_5 = 0.0f;
      float dot_6 = 0.0f;
      vf dot_1 = v_splat(0.0f);
      vf dot_1_1 = v_splat(0.0f);
      vf dot_1_2 = v_splat(0.0f);
      vf dot_1_3 = v_splat(0.0f);
      vf dot_1_4 = v_splat(0.0f);
      vf dot_1_5 = v_splat(0.0f);
      for (int d = 0; d < 64; d += 16) {
        dot_1 = dot_1 + *(const vf *)&Q[i][d] * *(const vf *)&K[j][d];
        dot_1_1 = dot_1_1 + *(const vf *)&Q[i][d] * *(const vf *)&K[j + 1][d];
        dot_1_2 = dot_1_2 + *(const vf *)&Q[i][d] * *(const vf *)&K[j + 2][d];
        dot_1_3 = dot_1_3 + *(const vf *)&Q[i][d] * *(const vf *)&K[j + 3][d];
        dot_1_4 = dot_1_4 + *(const vf *)&Q[i][d] * *(const vf *)&K[j + 4][d];
        dot_1_5 = dot_1_5 + *(const vf *)&Q[i][d] * *(const vf *)&K[j + 5][d];
      }
      dot = dot + v_sum(dot_1);
      dot_2 = dot_2 + v_sum(dot_1_1);
      dot_3 = dot_3 + v_sum(dot_1_2);
      dot_4 = dot_4 + v_sum(dot_1_3);
      dot_5 = dot_5 + v_sum(dot_1_4);
      dot_6 = dot_6 + v_sum(dot_1_5);
      scores[j] = dot * 0.125f;
      scores[j + 1] = dot_2 * 0.125f;
      scores[j + 2] = dot_3 * 0.125f;
      scores[j + 3] = dot_4 * 0.125f;
      scores[j + 4] = dot_5 * 0.125f;
      scores[j + 5] = dot_6 * 0.125f;
    }
    for (int j = 252; j < 256; j++) {
      float dot = 0.0f;
      vf dot_1 = v_splat(0.0f);
      vf dot_1_6 = v_splat(0.0f);
      vf dot_1_7 = v_splat(0.0f);
      vf dot_1_8 = v_splat(0.0f);
      for (int d = 0; d < 64; d += 64) {
        dot_1 = dot_1 + *(const vf *)&Q[i][d] * *(const vf *)&K[j][d];
        dot_1_6 = dot_1_6 + *(const vf *)&Q[i][d + 16] * *(const vf *)&K[j][d + 16];
        dot_1_7 = dot_1_7 + *(const vf *)&Q[i][d + 32] * *(const vf *)&K[j][d + 32];
        dot_1_8 = dot_1_8 + *(const vf *)&Q[i][d + 48] * *(const vf *)&K[j][d + 48];
      }
      dot_1 = dot_1 + dot_1_6;
      dot_1 = dot_1 + dot_1_7;
      dot_1 = dot_1 + dot_1_8;
      dot = dot + v_sum(dot_1);
      scores[j] = dot * 0.125f;
    }
    float most = scores[0];
    vf most_1 = v_splat(most);
    for (int j = 0; j < 256; j += 16) {
      most_1 = v_max(most_1, *(const vf *)&scores[j]);
    }
    most = fmaxf(most, v_most(most_1));
    float sum = 0.0f;
    vf sum_1 = v_splat(0.0f);
    for (int j = 0; j < 256; j += 16) {
      *(vf *)&scores[j] = v_exp(*(const vf *)&scores[j] - most);
      sum_1 = sum_1 + *(const vf *)&scores[j];
    }
    sum = sum + v_sum(sum_1);
    float over_1 = 1.0f / sum;
    for (int d = 0; d < 64; d += 16) {
      vf total = v_splat(0.0f);
      vf total_1 = v_splat(0.0f);
      for (int j = 0; j < 256; j += 2) {
        total = total + scores[j] * *(const vf *)&V[j][d];
        total_1 = total_1 + scores[j + 1] * *(const vf *)&V[j + 1][d];
      }
      total = total + total_1;
      *(vf *)&O[i][d] = total * over_1;
    }
  }
}
