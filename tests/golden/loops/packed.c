#include <math.h>

typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

void kernel(const float Q[6][5], const float K[7][5], float O[6][5]) {
  static _Alignas(64) float K_1[5][7];
  for (int at_1 = 0; at_1 < 7; at_1++) {
    for (int at_2 = 0; at_2 < 5; at_2++) {
      K_1[at_2][at_1] = K[at_1][at_2];
    }
  }
  float scores[7];
  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 4; j += 4) {
      *(vf *)&scores[j] = v_splat(0.0f);
      for (int d = 0; d < 5; d++) {
        *(vf *)&scores[j] = *(const vf *)&scores[j] + Q[i][d] * *(const vf *)&K_1[d][j];
      }
    }
    for (int j = 4; j < 7; j++) {
      scores[j] = 0.0f;
      for (int d = 0; d < 5; d++) {
        scores[j] = scores[j] + Q[i][d] * K_1[d][j];
      }
    }
    float most = scores[0];
    for (int j = 0; j < 7; j++) {
      most = fmaxf(most, scores[j]);
    }
    float sum = 0.0f;
    for (int j = 0; j < 7; j++) {
      scores[j] = expf(scores[j] - most);
      sum = sum + scores[j];
    }
    for (int d = 0; d < 5; d++) {
      float total = 0.0f;
      for (int j = 0; j < 7; j++) {
        total = total + scores[j] * K[j][d];
      }
      O[i][d] = total / sum;
    }
  }
}
