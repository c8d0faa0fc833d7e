/* What a kernel that is compiled for the CPU may ask of the runtime (runtime.cpp), and nothing else.

   One block runs at a time, each of its threads on a stack of its own; a thread runs until it has to wait.
   `line` is the place in the kernel's source, for messages. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

extern "C" {
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* What the threads of a warp do together; `value` and `source` are given by each of them. */
enum tw_operation {
  TW_MEET, TW_SHUFFLE, TW_BALLOT, TW_MATCH, TW_ADD, TW_MIN, TW_MAX, TW_UMIN, TW_UMAX, TW_AND, TW_OR, TW_XOR, TW_ACTIVE
};
void tw_barrier(int line);
int tw_barrier_sum(int line, int value);  /* of all threads' values, after a barrier */
uint64_t tw_warp(tw_operation operation, unsigned mask, uint64_t value, unsigned source, int line);
unsigned tw_lane(void);
unsigned tw_active(int line);  /* the threads of the warp that are at this line when no other thread can go on */
void tw_trap(int line);
void tw_false_promise(int line);  /* what the kernel has told the compiler does not hold */
void tw_atomic(void *at, size_t bytes, bool locks, int line);  /* is about to be changed at once; `locks`: as a lock is */
void tw_read_only(const void *at, size_t bytes, int line);  /* is read, and must not change during the launch */
void tw_fence(void);  /* what the thread has written is visible to the whole device before what it writes later */
void tw_copy_later(void *to, const void *brought, size_t bytes);  /* asynchronously */
void tw_end_batch(void);
void tw_wait_for_copies(size_t but);  /* all batches but the last few */

/* The addresses of up to four local variables of the thread, by which the first thread of its warp may use them. */
void tw_lend(void *first, const void *second, const void *third, const void *fourth);
void *tw_lent(unsigned lane, int number);
int tw_scattered(void);  /* decides which thread holds which elements of a matrix; another number in each run of a check */

void *tw_address(const volatile void *at);  /* the same one */
void *tw_dynamic_shared(void);
/* The bits of the short float next to a double: of half or of bfloat16, below (-1), above (1) or towards 0 (0). */
unsigned tw_rounded(uint64_t number, int is_bfloat, int side);
bool tw_is_large(void);  /* the device: many multiprocessors and inexact fast functions, or few and exact ones */
/* What a kernel is told about the device; another one in each run, so that no kernel can be right on this one alone. */
struct tw_device {
  const char *name;
  int multiprocessors, major, minor, clock_khz, memory_clock_khz, bus_bits, cache_kib, memory_kib, shared_kib, random;
};
const tw_device *tw_the_device(void);
void tw_launch(const char *name, const void *function, int line, const dim3 *grid, const dim3 *block,
               size_t shared, const void *stream, void (*body)(void *), void *closure);
void tw_allow_shared(const void *function, size_t bytes);
void *tw_allocate(size_t bytes);
void tw_release(void *memory);
void tw_copy(void *to, const void *from, size_t bytes, const void *stream, int line);
void tw_fill(void *to, int value, size_t bytes, const void *stream, int line);
void *tw_stream(unsigned apart);  /* a new one; `apart` from the default stream */
void *tw_event(void);
void tw_record(void *event, const void *stream);
void tw_wait(const void *stream, const void *event);
void tw_host_waits(const void *stream, const void *event);  /* for the event, or for the stream where it is null */
void tw_host_waits_for_all(void);

/* In the program that records the results of conditions, the kernel has these (condition_program.py). */
void tw_begin_records(void *records);
extern const size_t tw_records_size;
}
