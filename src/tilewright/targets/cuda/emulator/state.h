/* Finds what a kernel keeps in its own variables, of the host and of the device, from one call to the next.

   Part of the runtime. The first run may leave anything in the variables, such as a flag that something has been set
   up. What it leaves may depend on its inputs only if later runs write it again: the first run is repeated with the
   inputs of the last one, and if it leaves other values then, the last run is repeated after either. If a later run begins with other values than the first run has left, it is repeated, with the same inputs, order
   and addresses, but with the values that the first run has left. If both leave the same values, they have kept nothing
   of those before them, as variables for intermediate results do. Otherwise the kernel may count its calls, and what it
   does in its next call cannot be known from those that were compared. */
#pragma once

extern "C" char __start_tw_variables[], __stop_tw_variables[]; /* multiples of eight */

/* The sanitizer would refuse to copy or compare the bytes between variables by functions of the C library. */
class Variables {
  using Words = volatile uint64_t *;
  Words first_left = nullptr, left = nullptr; /* after the first run, and after the last one */
  Words initial = nullptr, other_left = nullptr; /* before the first run, and after the first run with other inputs */
  bool other = false;

  static Words now() { return (Words)__start_tw_variables; }
  static size_t count() { return (__stop_tw_variables - __start_tw_variables) / sizeof(uint64_t); }
  static void copy(Words to, Words from) {
    for (size_t i = 0; i < count(); i++) to[i] = from[i];
  }
  static size_t difference(Words a, Words b) { /* the first word that differs, or count() */
    size_t i = 0;
    while (i < count() && a[i] == b[i]) i++;
    return i;
  }
  static Words allocated() {
    void *all = mmap(0, count() * sizeof(uint64_t) + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) _exit(4);
    return (Words)all;
  }

 public:
  void before_run(int run) {
    if (run == 0) initial = allocated(), copy(initial, now());
    other = run > 0 && difference(now(), first_left) < count();
  }

  void after_run(int run) {
    if (run == 0) first_left = allocated(), left = allocated(), copy(first_left, now());
  }

  /* Whether the run began with other values than the first run has left. */
  bool began_otherwise() const { return other; }

  void begin_again() {
    copy(left, now());
    copy(now(), first_left);
  }

  bool changed_by_first() const { return difference(initial, first_left) < count(); }
  void begin_as_first() { copy(now(), initial); }
  /* Whether the first run, repeated with other inputs, has left the same. Otherwise, what it has left is kept. */
  bool left_as_first() {
    if (difference(now(), first_left) == count()) return true;
    other_left = allocated();
    copy(other_left, now());
    return false;
  }
  void begin_after_other() { copy(now(), other_left); }

  /* A variable that the repeated run has left otherwise, or null. The run's own values are there again. */
  const char *kept() {
    size_t at = difference(now(), left);
    bool same = at == count();
    copy(now(), left);
    return same ? nullptr : __start_tw_variables + at * sizeof(uint64_t);
  }
};
static Variables variables;

static __attribute__((noinline)) void clear_nearest(void) {
  volatile char nearest[3 * PAGE];
  for (size_t i = 0; i < sizeof nearest; i++) nearest[i] = 0;
}

/* Stacks hold nothing of an earlier call, where a kernel might read it as the value of a variable that was never set. */
static __attribute__((noinline)) void forget_stacks(void) {
  enum { OF_THE_HOST = 8 << 20 };
  char *below = (char *)((uintptr_t)__builtin_frame_address(0) / PAGE * PAGE) - PAGE; /* madvise runs above it */
  madvise(below - OF_THE_HOST, OF_THE_HOST, MADV_DONTNEED);
  for (const Resident &one : residents)
    if (one.stacks) madvise(one.stacks, (size_t)(MOST_THREADS + 1) * (STACK + PAGE), MADV_DONTNEED);
  clear_nearest();
}
