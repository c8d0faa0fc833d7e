/* Runs two blocks of a launch in turns, as blocks of a GPU run at the same time.

   Part of the runtime. In some runs, other threads run before an atomic operation or a fence, and another block may.
   A kernel thus sees what it sees on a GPU: other threads and blocks have changed what it changes too. A kernel cannot
   tell the two from one another by asking whether blocks, or the threads of a warp, run one after the other.

   A block also has to wait if its threads only compute or look at a variable for a while, because they may wait for the
   other block. What the program does then depends on time, but this does not change what a correct kernel computes.

   Whatever is drawn here comes from a generator of its own, so that the order of threads and blocks does not depend on
   how many atomic operations there were. */
#pragma once

#include <sys/time.h>

static struct {
  bool on;              /* in this launch */
  bool waits;           /* a block that has begun, while another one runs */
  bool others;          /* whether there is a block that could run instead */
  bool given_way;       /* the block that runs has not ended, but is to wait now */
  uint64_t random;
  unsigned left, most;  /* atomic operations until a block has to wait; the most of them */
  unsigned long seen;   /* how many changes of threads there had been when the clock was last looked at */
  unsigned thread[2];   /* the thread that ran when a block began to wait */
  uint3 block[2];
  char *shared;         /* what the block that waits has there */
  size_t dynamic;       /* bytes of its dynamic part */
} turns;

static unsigned drawn_turn(unsigned below) { return (unsigned)(next_random(turns.random) % below); }

static void next_turn(bool others) {
  turns.others = others;
  turns.left = 1 + drawn_turn(turns.most);
  if (turns.most < 1 << 16) turns.most *= 2; /* so that blocks that wait for each other change places rarely */
  turns.given_way = false;
}

static void give_way(void) {
  turns.given_way = true;
  own->fibers[current].place.go(outside);
}

static void on_clock(int) {
  bool idle = turns.seen == changes;
  turns.seen = changes;
  if (idle && turns.others && on_device) give_way();
}

static void let_the_clock_run(bool runs) {
  enum { PERIOD_US = 20000 };
  const struct itimerval period = {{0, runs ? PERIOD_US : 0}, {0, runs ? PERIOD_US : 0}};
  setitimer(ITIMER_VIRTUAL, &period, nullptr);
}

/* An operation by which blocks may tell each other something is next. */
static void may_change(bool of_all_blocks) {
  if (!turns.on) return;
  if (drawn_turn(2)) {
    ready(current);
    next(own->fibers[current].place);
  }
  if (of_all_blocks && !--turns.left) give_way();
}

/* Over the bytes between shared arrays too, which the address sanitizer refuses to copy. */
static void copy_over_gaps(char *to, const char *from, size_t bytes) {
#if defined __x86_64__
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const volatile char *)from)[i];
#endif
}

static void exchange_bytes(char *here, size_t bytes, char *&kept) {
  char part[PAGE];
  for (size_t at = 0; at < bytes; at += sizeof part) {
    size_t count = bytes - at < sizeof part ? bytes - at : sizeof part;
    copy_over_gaps(part, here + at, count);
    copy_over_gaps(here + at, kept + at, count);
    copy_over_gaps(kept + at, part, count);
  }
  kept += bytes;
}

/* The other place for a block becomes the one in which blocks run, with what its block had in shared memory. */
static void change_places(void) {
  turns.thread[own - residents] = current;
  turns.block[own - residents] = blockIdx;
  own = &residents[own == residents];
  current = turns.thread[own - residents];
  blockIdx = turns.block[own - residents];
  char *kept = turns.shared;
  exchange_bytes(__start_tw_shared, __stop_tw_shared - __start_tw_shared, kept);
  exchange_bytes(dynamic_pages, turns.dynamic, kept);
}

/* Goes on with a block that has given way. Returns whether it has ended. */
static bool go_on(bool others) {
  next_turn(others);
  threadIdx = own->fibers[current].index;
  outside.go(own->fibers[current].place);
  return !turns.given_way;
}

static void run_in_turns(const unsigned *sequence, unsigned long count, size_t shared) {
  size_t bytes = __stop_tw_shared - __start_tw_shared + shared;
  turns.shared = (char *)malloc(bytes + 1);
  if (!turns.shared) _exit(4);
  turns.dynamic = shared;
  turns.most = 4;
  for (unsigned t = 0; t < threads; t++) residents[1].fibers[t].index = residents[0].fibers[t].index;
  for (unsigned w = 0; w * WARP < threads; w++) memcpy(residents[1].warps[w].order, residents[0].warps[w].order, WARP);
  if (!residents[1].stacks) residents[1].stacks = new_stacks();
  turns.on = true;
  let_the_clock_run(true);
  for (unsigned long begun = 0; begun < count || turns.waits;) {
    bool ended;
    if (begun < count) {
      begin_block(sequence[begun++]);
      next_turn(turns.waits || begun < count);
      next(outside);
      ended = !turns.given_way;
    } else {
      turns.waits = false;
      change_places();
      ended = go_on(false);
    }
    while (!ended && (turns.waits || begun == count)) { /* of two blocks, until one of them has ended */
      if (turns.waits) change_places();
      ended = go_on(turns.waits);
    }
    if (ended && own->alive) deadlock();
    if (!ended) { /* and there is a place for another block */
      change_places();
      turns.waits = true;
    }
  }
  let_the_clock_run(false);
  turns.on = false;
  own = residents;
  free(turns.shared);
}
