/* Finds data races: two threads access one element, one of them changes it, and nothing orders the two accesses.

   Part of the runtime, in a program of its own (RACES): there the compiler announces every access of the kernel
   (-fsanitize=thread), to the functions at the end of this file. The threads of the CPU change places only where they
   wait, so a race need not show in any result.

   What orders accesses: a barrier, for the threads of a block; an operation of a warp, for the threads in its mask;
   atomic operations on global memory by both, for threads of different blocks, where a fence lies between a write and
   the atomic operation after it; in the same way, a volatile write to global memory (a flag), and a volatile read of
   that flag by a thread of another block; locks (atomicCAS, atomicExch), for threads of one block; streams and events, for
   different launches (streams.h). A write that leaves an element as it was takes part in no race: threads may write the same
   value. Atomic operations that change an element race with plain writes, but neither with one another nor with plain
   reads, which kernels use to look whether an operation is needed; those that locks consist of race with nothing. All
   is kept for each word of four bytes: who wrote it last, who has read it last, and who last changed it by atomic
   operations. So some races are missed, but an order that exists is never overlooked.

   Also told, but no failure, is the first read of each array of what was never written: where a result is wrong, that
   may be why. */
#pragma once

struct Access {
  uint32_t epoch;  /* numbers the times between barriers, over all blocks */
  uint32_t stamp;  /* operations of the thread's warp since the barrier */
  uint32_t time;   /* atomic operations and fences of all threads */
  int32_t pc;      /* or a line of the source, below 0 */
};
struct Group { /* accesses of one kind by several threads */
  Access access; /* the last of them */
  uint32_t lanes; /* of one warp */
  uint8_t warp;   /* or MANY_WARPS */
  uint8_t bytes;  /* which of the word's */
};
struct Word {
  Access write;
  Group read;
  uint32_t set; /* the epoch of the last write, also of one that changed nothing */
  uint16_t writer;
  uint8_t written; /* which of its bytes */
  uint8_t flag;    /* how the last write was made */
};
/* The last write was plain; volatile; or volatile, and its thread made another volatile write without a fence between. */
enum { PLAIN, FLAG, UNFENCED_FLAG };
/* How a block may know what other blocks have done. */
enum { NOTHING, BY_FLAGS, BY_ATOMICS };
enum { MANY_WARPS = 255, MOST_WRITTEN = 64, MOST_WATCHED = 64 << 20 };
struct Found { Word *words; long array; bool shared; };
enum { OF_SHARED = -2, OF_VARIABLES = -3 };

extern "C" char __data_start[], _end[];
static Word *image; /* of the program's own variables: shared memory and variables of the device */
static Group *image_atomics;
static Word *words_of[MOST_ARRAYS];
static Group *atomics_of[MOST_ARRAYS];
static uint32_t epoch = 1, block_epoch, launch_epoch, atomic_time;
static uint32_t operations[MOST_WARPS], known[MOST_WARPS][WARP][WARP], locked[MOST_THREADS];
static uint32_t *begun, *passed_on; /* of each block of a launch: its first epoch, and that of its last atomic operation */
static uint32_t fenced, *published; /* the time of the block's last fence, and of that before each block's last atomic operation */
static uint8_t *received; /* by each block: from others */
static struct Seen { unsigned long reader; uint32_t time; } *seen; /* of each block's flags: the latest that a block has read */
static struct { Word *words; unsigned count; uint32_t time; } last_flag[MOST_THREADS];
static unsigned long blocks_begun;
static struct Work { uint32_t epoch, number; unsigned stream; int line; } *works; /* of this process, by first epoch */
static unsigned works_used;
static bool follows_all; /* the work that runs now: no other runs at the same time */
static bool told[MOST_ARRAYS + 1];
static struct { char *at; unsigned bytes; int32_t pc; bool atomic, flag; char before[MOST_WRITTEN]; } written;

template <class T> static T *for_each_word(size_t bytes) {
  void *all = mmap(0, bytes / 4 * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return all == MAP_FAILED ? nullptr : (T *)all;
}

template <class T> static void forget(T *&words, size_t bytes) {
  if (words) munmap(words, bytes / 4 * sizeof(T));
  words = nullptr;
}

static void watch_array(const Array &a) {
  told[&a - arrays] = false;
  if (a.bytes <= MOST_WATCHED) words_of[&a - arrays] = for_each_word<Word>(a.bytes + 16);
}

static void forget_array(const Array &a) {
  forget(words_of[&a - arrays], a.bytes + 16);
  forget(atomics_of[&a - arrays], a.bytes + 16);
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

/* The atomic operations on the found word; null before the first atomic operation on its array. */
static Group *atomics_on(const Found &found, bool first) {
  bool own = found.array < 0;
  Group *&atomics = own ? image_atomics : atomics_of[found.array];
  if (first && !atomics) atomics = for_each_word<Group>((own ? _end - __data_start : arrays[found.array].bytes) + 16);
  return atomics ? atomics + (found.words - (own ? image : words_of[found.array])) : nullptr;
}

/* ---- what orders accesses ---- */

static void races_work(void) {
  if (!image) image = for_each_word<Word>(_end - __data_start + 16);
  if (works_used % 256 == 0) works = (Work *)realloc(works, (works_used + 256) * sizeof *works);
  if (!image || !works) _exit(4);
  launch_epoch = ++epoch;
  works[works_used++] = {epoch, streams[stream_at_work].issued, stream_at_work, line_at_work};
  follows_all = !line_beside(at_work);
}

static const Work &work_of(uint32_t of) {
  unsigned first = 0, last = works_used;
  while (last - first > 1) {
    unsigned middle = (first + last) / 2;
    (works[middle].epoch <= of ? first : last) = middle;
  }
  return works[first];
}

static void races_launch(unsigned long blocks) {
  races_work();
  free(begun);
  free(passed_on);
  free(published);
  free(received);
  free(seen);
  begun = (uint32_t *)calloc(blocks, sizeof *begun);
  passed_on = (uint32_t *)calloc(blocks, sizeof *passed_on);
  published = (uint32_t *)calloc(blocks, sizeof *published);
  received = (uint8_t *)calloc(blocks, sizeof *received);
  seen = (Seen *)calloc(blocks, sizeof *seen);
  if (!begun || !passed_on || !published || !received || !seen) _exit(4);
  blocks_begun = 0;
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
  memset(last_flag, 0, sizeof *last_flag * threads);
  fenced = 0;
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

static void to_be_written(char *at, size_t size, int32_t pc, bool atomic);

static void races_atomic(void *at, size_t bytes, bool locks, int line) {
  atomic_time++;
  if (locks) locked[current] = atomic_time;
  if (!is_shared((const char *)at)) {
    passed_on[blocks_begun - 1] = epoch;
    published[blocks_begun - 1] = fenced;
    received[blocks_begun - 1] = BY_ATOMICS;
  }
  if (!locks) to_be_written((char *)at, bytes, -line, true);
}

static void races_fence(void) {
  races_flush();
  fenced = ++atomic_time;
}

static unsigned long block_of(const Access &a) {
  unsigned long first = 0, last = blocks_begun;
  while (last - first > 1) {
    unsigned long middle = (first + last) / 2;
    (begun[middle] <= a.epoch ? first : last) = middle;
  }
  return first;
}

static bool is_handed_on(const Access &a) { return passed_on[block_of(a)] >= a.epoch && received[blocks_begun - 1]; }

static bool lacks_a_fence(const Access &a) { return a.time >= published[block_of(a)]; }

/* Whether nothing orders an earlier access by `lanes` of a warp before what the current thread does now. */
static bool is_unordered(const Access &a, unsigned warp, uint32_t lanes, bool shared, bool writes) {
  if (a.epoch < launch_epoch) {
    if (follows_all || shared || !a.epoch) return false;
    const Work &work = work_of(a.epoch);
    return work.number > at_work.known[work.stream];
  }
  if (a.epoch < block_epoch) return !shared && (!is_handed_on(a) || (writes && lacks_a_fence(a)));
  if (a.epoch != epoch || locked[current] > a.time) return false;
  if (warp != current / WARP) return true;
  for (unsigned l = 0; l < WARP; l++)
    if (lanes >> l & 1 && l != current % WARP && a.stamp >= known[warp][current % WARP][l]) return true;
  return false;
}

/* ---- accesses ---- */

[[noreturn]] static void race(const char *kind, int32_t pc, const Access &other, const Found &found) {
  const char *whose = other.epoch < launch_epoch ? "work" : other.epoch >= block_epoch ? "thread"
                      : is_handed_on(other) ? "fence" : "block";
  fprintf(report, "race\t%s\t%d\t%d\t%ld\t%s\t%d\t%d", kind, pc, other.pc, found.array < arguments ? found.array : -1L,
          whose, line_at_work, work_of(other.epoch).line);
  where();
  fflush(report);
  _exit(1);
}

/* Of each array and of shared memory, the first read of what holds nothing yet. */
static void tell_unset(const Found &found, int32_t pc) {
  if (found.array < 0 && !found.shared) return;
  bool &already = told[found.shared ? MOST_ARRAYS : found.array];
  if (already || found.words->set >= (found.shared ? block_epoch : 1u)) return;
  already = true;
  fprintf(report, "unset\t%d\t%ld", pc, found.array < arguments ? found.array : -1L);
  where();
}

static Access now(int32_t pc) { return {epoch, operations[current / WARP], atomic_time, pc}; }

static unsigned bytes_within(const char *at, const char *end) {
  unsigned first = (uintptr_t)at % 4, count = end - at < 4 - (long)first ? end - at : 4 - first;
  return ((1u << count) - 1) << first;
}

static bool is_unordered(const Group &group, bool shared) { return is_unordered(group.access, group.warp, group.lanes, shared, false); }

/* The current thread's access is the last of the group: of those before it, such as nothing orders before it remain. */
static void join(Group &group, unsigned bytes, int32_t pc, bool shared) {
  if (group.access.epoch == epoch && group.warp == MANY_WARPS && group.bytes == bytes) return;
  unsigned warp = current / WARP, lane = 1u << current % WARP;
  if (group.access.epoch != epoch || group.bytes != bytes || !is_unordered(group, shared)) {
    group.warp = warp;
    group.lanes = lane;
    group.bytes = bytes;
  } else if (group.warp != warp)
    group.warp = MANY_WARPS;
  else
    group.lanes |= lane;
  group.access = now(pc);
}

static bool follows_a_write(const Found &found, unsigned bytes) {
  const Word &word = *found.words;
  return word.written & bytes && is_unordered(word.write, word.writer / WARP, 1u << word.writer % WARP, found.shared, true);
}

static bool follows_one_of(const Group &group, unsigned bytes, bool shared) {
  return group.bytes & bytes && is_unordered(group, shared);
}

static bool is_of_another_block(const Access &a) { return a.epoch >= launch_epoch && a.epoch < block_epoch; }

/* Whether two blocks write one flag. That both read flags does not order these writes. */
static bool overwrites_a_flag(const Word &word, unsigned bytes) {
  return word.flag && word.written & bytes && is_of_another_block(word.write) &&
         (received[blocks_begun - 1] != BY_ATOMICS || received[block_of(word.write)] != BY_ATOMICS);
}

static void wrote(const Found &found, unsigned bytes) {
  Word &word = *found.words;
  if (follows_a_write(found, bytes) || (on_device && overwrites_a_flag(word, bytes)))
    race("write_write", written.pc, word.write, found);
  if (!written.flag && follows_one_of(word.read, bytes, found.shared)) race("read_write", written.pc, word.read.access, found);
  const Group *atomics = atomics_on(found, false);
  if (atomics && follows_one_of(*atomics, bytes, found.shared)) race("atomic_write", written.pc, atomics->access, found);
  word.write = now(written.pc);
  word.writer = current;
  word.written = bytes;
  word.flag = written.flag ? FLAG : PLAIN;
}

/* Copies and fills by host code, which are works of their own. */
static void races_host(const void *at, size_t size, bool writes) {
  Found found = found_at((const char *)at);
  const int32_t pc = line_at_work ? -line_at_work : INT32_MIN;
  for (size_t w = 0; found.words && w < (size + 3) / 4; w++, found.words++) {
    written.pc = pc;
    written.flag = false;
    if (writes) wrote(found, 15), found.words->set = epoch;
    else if (follows_a_write(found, 15)) race("write_read", pc, found.words->write, found);
    else join(found.words->read, 15, pc, found.shared);
  }
}

static void changed_by_an_atomic(const Found &found, unsigned bytes) {
  if (follows_a_write(found, bytes)) race("write_atomic", written.pc, found.words->write, found);
  if (Group *atomics = atomics_on(found, true)) join(*atomics, bytes, written.pc, found.shared);
}

/* Whether the last announced write has left its element as it was, or is still to come. */
static bool is_unchanged(void) { return !memcmp(written.at, written.before, written.bytes); }

/* What the last announced write has changed. Comes before anything that another thread does. */
static void races_flush(void) {
  if (!written.bytes) return;
  char *end = written.at + written.bytes;
  written.bytes = 0;
  Found found = found_at(written.at);
  if (!found.words) return;
  for (char *at = written.at; at < end; at = (char *)((uintptr_t)at / 4 * 4 + 4), found.words++) {
    unsigned bytes = bytes_within(at, end), count = __builtin_popcount(bytes);
    if (memcmp(at, written.before + (at - written.at), count))
      (written.atomic ? changed_by_an_atomic : wrote)(found, bytes);
  }
}

/* A volatile read of a word that another block has written as a flag. Returns false for any other word. */
static bool reads_a_flag(const Found &found, unsigned bytes, int32_t pc) {
  const Word &word = *found.words;
  if (found.shared || !word.flag || !(word.written & bytes) || !is_of_another_block(word.write)) return false;
  Seen &latest = seen[block_of(word.write)];
  if (latest.reader != blocks_begun) latest = {blocks_begun, 0};
  uint8_t &how = received[blocks_begun - 1];
  if (how == NOTHING) how = BY_FLAGS;
  if (word.flag == UNFENCED_FLAG && latest.time > word.write.time) race("write_read", pc, word.write, found);
  if (word.write.time > latest.time) latest.time = word.write.time;
  return true;
}

/* On a GPU, one address names a local variable of each thread, so that a thread reads its own. */
static void refuse_locals_of_others(const char *at, long pc, bool writes) {
  if (!on_device || at < stacks || at >= stacks + (size_t)(MOST_THREADS + 1) * (STACK + PAGE)) return;
  if ((at - stacks) / (STACK + PAGE) != current) fault("local_of_another", pc, at, writes);
}

static void reads(const char *at, size_t size, void *from, bool flag = false) {
  /* A copy of a structure is announced as a write and then as a read, before anything is copied. */
  if (written.bytes && !is_unchanged()) races_flush();
  if (!on_device) return;
  Found found = found_at(at);
  if (!found.words) return refuse_locals_of_others(at, (long)from - 1, false);
  for (const char *end = at + size; at < end; at = (char *)((uintptr_t)at / 4 * 4 + 4), found.words++) {
    unsigned bytes = bytes_within(at, end);
    tell_unset(found, (long)from - 1);
    if (!(flag && reads_a_flag(found, bytes, (long)from - 1)) && follows_a_write(found, bytes))
      race("write_read", (long)from - 1, found.words->write, found);
    join(found.words->read, bytes, (long)from - 1, found.shared);
  }
}

/* A cache that is not kept up to date may hold what was there before the launch. */
static void races_read_only(const void *from, size_t size, int line) {
  races_flush();
  const char *at = (const char *)from;
  Found found = found_at(at);
  for (size_t w = 0; found.words && w < ((uintptr_t)at % 4 + size + 3) / 4; w++)
    if (found.words[w].set >= launch_epoch) fail("stale_read", line, 0);
}

static void to_be_written(char *at, size_t size, int32_t pc, bool atomic) {
  Found found = found_at(at);
  if (!found.words) return refuse_locals_of_others(at, pc, true);
  if (size > MOST_WRITTEN) return;
  if (atomic) tell_unset(found, pc);
  for (size_t w = 0; w < ((uintptr_t)at % 4 + size + 3) / 4; w++) found.words[w].set = epoch;
  written.at = at;
  written.bytes = size;
  written.pc = pc;
  written.atomic = atomic;
  written.flag = false;
  memcpy(written.before, at, size);
}

static void writes(char *at, size_t size, void *from) {
  races_flush();
  if (on_device) to_be_written(at, size, (long)from - 1, false);
}

static void writes_a_flag(char *at, size_t size, void *from) {
  writes(at, size, from);
  if (!written.bytes || is_shared(at)) return;
  auto &last = last_flag[current];
  Word *words = found_at(at).words;
  for (unsigned w = 0; last.words != words && last.time >= fenced && w < last.count; w++)
    if (last.words[w].flag) last.words[w].flag = UNFENCED_FLAG;
  last = {words, (unsigned)(((uintptr_t)at % 4 + size + 3) / 4), ++atomic_time};
  written.flag = true;
  passed_on[blocks_begun - 1] = epoch;
  published[blocks_begun - 1] = fenced;
}

extern "C" {
void __tsan_init(void) {}
void __tsan_read_range(char *at, size_t size) { reads(at, size, __builtin_return_address(0)); }
void __tsan_write_range(char *at, size_t size) { writes(at, size, __builtin_return_address(0)); }
void __tsan_vptr_update(void **, void *) {}
#define TW_ACCESS(size)                                                                                   \
  void __tsan_read##size(char *at) { reads(at, size, __builtin_return_address(0)); }                      \
  void __tsan_write##size(char *at) { writes(at, size, __builtin_return_address(0)); }                    \
  void __tsan_volatile_read##size(char *at) { reads(at, size, __builtin_return_address(0), true); }       \
  void __tsan_volatile_write##size(char *at) { writes_a_flag(at, size, __builtin_return_address(0)); }    \
  void __tsan_unaligned_read##size(char *at) { reads(at, size, __builtin_return_address(0)); }            \
  void __tsan_unaligned_write##size(char *at) { writes(at, size, __builtin_return_address(0)); }
TW_ACCESS(1)
TW_ACCESS(2)
TW_ACCESS(4)
TW_ACCESS(8)
TW_ACCESS(16)
#undef TW_ACCESS
}
