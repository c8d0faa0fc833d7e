/* Measures how many instructions of one kind a core of x86-64 starts per cycle with its widest vectors.
   Prints one line per number: name, value.

   Each number is the best of many short repetitions by CPU time. A cycle is the time of one addition
   of whole numbers in a chain, in which each addition needs the one before. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#if defined __AVX512F__
enum { BYTES = 64 };
#elif defined __AVX__
enum { BYTES = 32 };
#else
enum { BYTES = 16 };
#endif
typedef float vf __attribute__((vector_size(BYTES)));
typedef int vi __attribute__((vector_size(BYTES)));
enum { ROUNDS = 20000, REPETITIONS = 60 };
#if defined __AVX512F__
#define SWAPPED ((vi){1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14})
#elif defined __AVX__
#define SWAPPED ((vi){1, 0, 3, 2, 5, 4, 7, 6})
#else
#define SWAPPED ((vi){1, 0, 3, 2})
#endif
#if defined __AVX512F__
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#else
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#endif

static vi memory[64] __attribute__((aligned(64)));

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define DECLARE(c) vi x##c = {c}; vf f##c = {c};
#define ADD(c) memory[0] += x##c + (vi)f##c;

/* The instructions per second of EACH(work), which contains `count` of them. */
#define RATE(name, count, work)                                 \
  static double name(void) {                                    \
    vf a = {0.5f}, b = {0.25f};                                 \
    vi one = {1};                                               \
    EACH(DECLARE)                                               \
    KEEP(a); KEEP(b); KEEP(one);                                \
    double start = now();                                       \
    for (int n = 0; n < ROUNDS; n++) { EACH(work) }             \
    double taken = now() - start;                               \
    EACH(ADD)                                                   \
    memory[0] += (vi)a + (vi)b + one;                           \
    return (count) * (double)ROUNDS / taken;                    \
  }

#define PRODUCT(c) f##c = f##c * a + b; KEEP(f##c);
#define XOR(c) x##c ^= one; KEEP(x##c);
#define SHIFT(c) x##c >>= 1; KEEP(x##c);
#define SUM(c) x##c += one; KEEP(x##c);
#define CONVERT(c) f##c = __builtin_convertvector((vi)f##c, vf); KEEP(f##c);
#define SHUFFLE(c) x##c = __builtin_shuffle(x##c, SWAPPED); KEEP(x##c);
#define LOAD(c) x##c = *(volatile vi *)&memory[c];
#define STORE(c) *(volatile vi *)&memory[c] = one;
#define LOGIC(c) XOR(c) SHIFT(c)
#define MIX(c) PRODUCT(c) SUM(c) XOR(c)
RATE(multiply_adds, 12, PRODUCT)
RATE(shifts_and_logic, 24, LOGIC)
RATE(conversions, 12, CONVERT)
RATE(shuffles, 12, SHUFFLE)
RATE(vector_arithmetic, 36, MIX)
RATE(loads, 12, LOAD)
RATE(stores, 12, STORE)

static double cycles(void) {
  long x = 0;
  double start = now();
  for (int n = 0; n < ROUNDS; n++) {
#pragma GCC unroll 64
    for (int k = 0; k < 64; k++) __asm__ volatile("add $1, %0" : "+r"(x));
  }
  return ROUNDS * 64.0 / (now() - start);
}

static const struct {
  const char *name;
  double (*run)(void);
} tests[] = {
  {"multiply_adds", multiply_adds}, {"shifts_and_logic", shifts_and_logic}, {"conversions", conversions},
  {"shuffles", shuffles}, {"vector_arithmetic", vector_arithmetic}, {"loads", loads}, {"stores", stores},
};

int main(void) {
  double each_s = 0, found[sizeof tests / sizeof *tests] = {0};
  for (int r = 0; r < REPETITIONS; r++) {
    double rate = cycles();
    if (rate > each_s) each_s = rate;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
      if ((rate = tests[i].run()) > found[i]) found[i] = rate;
  }
  printf("vector_bytes %d\n", BYTES);
  printf("cycles_per_s %.6g\n", each_s);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) printf("%s %.6g\n", tests[i].name, found[i] / each_s);
  return 0;
}
