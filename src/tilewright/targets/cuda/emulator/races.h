/* Finds data races: two threads access one element, one of them changes it, and nothing orders the two accesses.

   Part of the runtime, in a program of its own (RACES): there the compiler announces every access of the kernel
   (-fsanitize=thread), to the functions at the end of this file. The threads of the CPU change places only where they
   wait, so a race need not show in any result.

   What orders accesses: a barrier, for the threads of a block; an operation of a warp, for the threads in its mask;
   atomic operations on global memory by both, for threads of different blocks; locks (atomicCAS, atomicExch), for
   threads of one block. A write that leaves an element as it was takes part in no race: threads may write the same
   value. Atomic operations are not accesses here. All else is kept for each word of four bytes: who wrote it last,
   and who has read it last. So some races are missed, but an order that exists is never overlooked. */
#pragma once

struct Access {
  uint32_t epoch;  /* numbers the times between barriers, over all blocks */
  uint32_t stamp;  /* operations of the thread's warp since the barrier */
  uint32_t time;   /* atomic operations of all threads */
  uint32_t pc;
};
struct Word {
  Access write, read;
  uint32_t readers; /* lanes of one warp */
  uint16_t writer;
  uint8_t reading_warp; /* or MANY_WARPS */
  uint8_t written : 4, seen : 4; /* which of its bytes */
};
enum { MANY_WARPS = 255, MOST_WRITTEN = 64, MOST_WATCHED = 64 << 20 };
struct Found { Word *words; long array; bool shared; };
enum { OF_SHARED = -2, OF_VARIABLES = -3 };

extern "C" char __data_start[], _end[];
static Word *image; /* of the program's own variables: shared memory and variables of the device */
static Word *words_of[MOST_ARRAYS];
static uint32_t epoch = 1, block_epoch, launch_epoch, atomic_time;
static uint32_t operations[MOST_WARPS], known[MOST_WARPS][WARP][WARP], locked[MOST_THREADS];
static uint32_t *begun, *passed_on; /* of each block of a launch: its first epoch, and that of its last atomic operation */
static unsigned long blocks_begun;
static struct { char *at; unsigned bytes; uint32_t pc; char before[MOST_WRITTEN]; } written;

static Word *new_words(size_t bytes) {
  void *all = mmap(0, bytes / 4 * sizeof(Word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return all == MAP_FAILED ? nullptr : (Word *)all;
}

static void watch_array(const Array &a) {
  if (a.bytes <= MOST_WATCHED) words_of[&a - arrays] = new_words(a.bytes + 16);
}

static void forget_array(const Array &a) {
  Word *&words = words_of[&a - arrays];
  if (words) munmap(words, (a.bytes + 16) / 4 * sizeof(Word));
  words = nullptr;
}

static Found found_at(const char *at) {
  if (at >= __data_start && at < _end) {
    bool shared = is_shared(at);
    return {image + (at - __data_start) / 4, shared ? OF_SHARED : OF_VARIABLES, shared};
  }
  if (at >= stacks && at < stacks + (size_t)(MOST_THREADS + 1) * (STACK + PAGE)) return {};
  for (const Array &a : arrays)
    if (a.used && at >= a.data && at < a.data + a.bytes)
      return {a.read_only || !words_of[&a - arrays] ? nullptr : words_of[&a - arrays] + (at - a.data) / 4, &a - arrays, false};
  return {};
}

/* ---- what orders accesses ---- */

static void races_launch(unsigned long blocks) {
  if (!image) image = new_words(_end - __data_start + 16);
  free(begun);
  free(passed_on);
  begun = (uint32_t *)calloc(blocks, sizeof *begun);
  passed_on = (uint32_t *)calloc(blocks, sizeof *passed_on);
  if (!image || !begun || !passed_on) _exit(4);
  blocks_begun = 0;
  launch_epoch = ++epoch;
}

static void races_flush(void);

static void races_barrier(void) {
  races_flush();
  epoch++;
  memset(operations, 0, sizeof operations);
  memset(known, 0, sizeof known[0] * ((threads + WARP - 1) / WARP));
}

static void races_block(void) {
  races_barrier();
  block_epoch = begun[blocks_begun++] = epoch;
  memset(locked, 0, sizeof *locked * threads);
}

static void races_warp(unsigned warp, unsigned there) {
  races_flush();
  uint32_t now = ++operations[warp], together[WARP] = {};
  for (unsigned a = 0; a < WARP; a++)
    for (unsigned b = 0; there >> a & 1 && b < WARP; b++)
      if (known[warp][a][b] > together[b]) together[b] = known[warp][a][b];
  for (unsigned b = 0; b < WARP; b++)
    if (there >> b & 1) together[b] = now;
  for (unsigned a = 0; a < WARP; a++)
    if (there >> a & 1) memcpy(known[warp][a], together, sizeof together);
}

static void races_atomic(const void *at, bool locks) {
  atomic_time++;
  if (locks) locked[current] = atomic_time;
  if (!is_shared((const char *)at)) passed_on[blocks_begun - 1] = epoch;
}

static bool is_ordered_by_atomics(const Access &a) {
  unsigned long first = 0, last = blocks_begun;
  while (last - first > 1) {
    unsigned long middle = (first + last) / 2;
    (begun[middle] <= a.epoch ? first : last) = middle;
  }
  return passed_on[first] >= a.epoch && passed_on[blocks_begun - 1];
}

/* Whether nothing orders an earlier access by `lanes` of a warp before what the current thread does now. */
static bool is_unordered(const Access &a, unsigned warp, uint32_t lanes, bool shared) {
  if (a.epoch < launch_epoch) return false;
  if (a.epoch < block_epoch) return !shared && !is_ordered_by_atomics(a);
  if (a.epoch != epoch || locked[current] > a.time) return false;
  if (warp != current / WARP) return true;
  for (unsigned l = 0; l < WARP; l++)
    if (lanes >> l & 1 && l != current % WARP && a.stamp >= known[warp][current % WARP][l]) return true;
  return false;
}

/* ---- accesses ---- */

[[noreturn]] static void race(const char *kind, uint32_t pc, const Access &other, const Found &found) {
  fprintf(report, "race\t%s\t%u\t%u\t%ld\t%d", kind, pc, other.pc, found.array < arguments ? found.array : -1L,
          other.epoch < block_epoch);
  where();
  fflush(report);
  _exit(1);
}

static Access now(uint32_t pc) { return {epoch, operations[current / WARP], atomic_time, pc}; }

static unsigned bytes_within(const char *at, const char *end) {
  unsigned first = (uintptr_t)at % 4, count = end - at < 4 - (long)first ? end - at : 4 - first;
  return ((1u << count) - 1) << first;
}

static void wrote(const Found &found, Word &word, unsigned bytes) {
  if (word.written & bytes && is_unordered(word.write, word.writer / WARP, 1u << word.writer % WARP, found.shared))
    race("write_write", written.pc, word.write, found);
  if (word.seen & bytes && is_unordered(word.read, word.reading_warp, word.readers, found.shared))
    race("read_write", written.pc, word.read, found);
  word.write = now(written.pc);
  word.writer = current;
  word.written = bytes;
}

/* What the last announced write has changed. Comes before anything that another thread does. */
static void races_flush(void) {
  if (!written.bytes) return;
  char *end = written.at + written.bytes;
  written.bytes = 0;
  Found found = found_at(written.at);
  if (!found.words) return;
  for (char *at = written.at; at < end; at = (char *)((uintptr_t)at / 4 * 4 + 4), found.words++) {
    unsigned bytes = bytes_within(at, end), count = __builtin_popcount(bytes);
    if (memcmp(at, written.before + (at - written.at), count)) wrote(found, *found.words, bytes);
  }
}

static void reads(const char *at, size_t size, void *from) {
  races_flush();
  if (!on_device) return;
  Found found = found_at(at);
  if (!found.words) return;
  unsigned warp = current / WARP, lane = 1u << current % WARP;
  for (const char *end = at + size; at < end; at = (char *)((uintptr_t)at / 4 * 4 + 4), found.words++) {
    Word &word = *found.words;
    unsigned bytes = bytes_within(at, end);
    if (word.written & bytes && word.write.epoch >= launch_epoch &&
        is_unordered(word.write, word.writer / WARP, 1u << word.writer % WARP, found.shared))
      race("write_read", (long)from - 1, word.write, found);
    if (word.read.epoch == epoch && word.reading_warp == MANY_WARPS && word.seen == bytes) continue;
    bool fresh = word.read.epoch != epoch || word.seen != bytes ||
                 !is_unordered(word.read, word.reading_warp, word.readers, found.shared);
    if (fresh) {
      word.reading_warp = warp;
      word.readers = lane;
      word.seen = bytes;
    } else if (word.reading_warp != warp)
      word.reading_warp = MANY_WARPS;
    else
      word.readers |= lane;
    word.read = now((long)from - 1);
  }
}

static void writes(char *at, size_t size, void *from) {
  races_flush();
  if (!on_device || size > MOST_WRITTEN || !found_at(at).words) return;
  written.at = at;
  written.bytes = size;
  written.pc = (long)from - 1;
  memcpy(written.before, at, size);
}

extern "C" {
void __tsan_init(void) {}
void __tsan_read_range(char *at, size_t size) { reads(at, size, __builtin_return_address(0)); }
void __tsan_write_range(char *at, size_t size) { writes(at, size, __builtin_return_address(0)); }
void __tsan_vptr_update(void **, void *) {}
#define TW_ACCESS(size)                                                                                   \
  void __tsan_read##size(char *at) { reads(at, size, __builtin_return_address(0)); }                      \
  void __tsan_write##size(char *at) { writes(at, size, __builtin_return_address(0)); }                    \
  void __tsan_unaligned_read##size(char *at) { reads(at, size, __builtin_return_address(0)); }            \
  void __tsan_unaligned_write##size(char *at) { writes(at, size, __builtin_return_address(0)); }
TW_ACCESS(1)
TW_ACCESS(2)
TW_ACCESS(4)
TW_ACCESS(8)
TW_ACCESS(16)
#undef TW_ACCESS
}
