/* Prints what one core's tile multiplier does at best: products per second, by CPU time. */
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "tiles.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(void) {
  struct tile_config config = {.palette = 1};
  for (int t = 0; t < 8; t++) config.rows[t] = 16, config.row_bytes[t] = 64;
  if (syscall(SYS_arch_prctl, 0x1023, 18)) {  /* ARCH_REQ_XCOMP_PERM for tile data */
    puts("the system lets this process have no tiles");
    return 1;
  }
  _tile_loadconfig(&config);
  double most = 0;
  for (int repetition = 0; repetition < 40; repetition++) {
    const int rounds = 20000;
    double start = now();
    for (int n = 0; n < rounds; n++) {
      PRODUCT(0, 4, 6);
      PRODUCT(1, 4, 7);
      PRODUCT(2, 5, 6);
      PRODUCT(3, 5, 7);
    }
    double rate = 4.0 * rounds * 16 * 16 * DEPTH / (now() - start);
    if (rate > most) most = rate;
  }
  printf("products_per_s %.6g\n", most);
  return 0;
}
