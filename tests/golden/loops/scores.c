#include <math.h>

typedef float vf __attribute__((vector_size(16), aligned(4), may_alias));
typedef int vi __attribute__((vector_size(16), aligned(4), may_alias));

static inline vf v_splat(float x) { return x - (vf){0}; }

void kernel(const float Q[6][5], const float K[7][5], float O[6][5]) {
  #pragma omp parallel for num_threads(2) schedule(static)
  for (int i = 0; i < 6; i++) {
    float scores[7];
    for (int j = 0; j < 7; j++) {
      scores[j] = 0.0f;
      for (int d = 0; d < 5; d++) {
        scores[j] = scores[j] + Q[i][d] * K[j][d];
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
    for (int d = 0; d < 4; d += 4) {
      vf total = v_splat(0.0f);
      for (int j = 0; j < 7; j++) {
        total = total + scores[j] * *(const vf *)&K[j][d];
      }
      *(vf *)&O[i][d] = total / sum;
    }
    for (int d = 1; d < 5; d += 4) {
      vf total = v_splat(0.0f);
      for (int j = 0; j < 7; j++) {
        total = total + scores[j] * *(const vf *)&K[j][d];
      }
      *(vf *)&O[i][d] = total / sum;
    }
  }
}
