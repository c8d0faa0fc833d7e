/* Calls the kernel once, between two reads of the cycle counter, and prints one line:

     tilewright NONCE CYCLES INSTRUCTIONS HASH...

   in hexadecimal, with a hash of every argument's bytes after the call, and for every argument whose
   bit in VALUES is set

     tilewright-values NONCE INDEX WORD...

   with its bytes as 64-bit words, for those that are compared within a tolerance. The names and the
   number given on the compiler's command line (MAIN, ARGUMENTS, NONCE) are drawn for every build, so
   that a kernel can neither refer to this file nor print a line of its own that is believed. */
#include <stdint.h>

struct argument {
  uint64_t *data;
  uint64_t words;
};

extern struct argument ARGUMENTS[COUNT];
extern volatile uint64_t tohost;
extern void kernel(uint64_t *, uint64_t *, uint64_t *, uint64_t *, uint64_t *, uint64_t *,
                   uint64_t *, uint64_t *);

static char line[512] __attribute__((section(".line")));
static int length;

#define READ(counter, to) __asm__ volatile("csrr %0, " #counter : "=r"(to)::"memory")
#define FENCE() __asm__ volatile("fence" ::: "memory")

static void put(char c) {
  if (length < (int)sizeof line - 1) line[length++] = c;
}

/* Hands what was put so far to the host's console, one character after the other. */
static void print(void) {
  FENCE();
  for (int i = 0; i < length; i++) {
    tohost = 0x0101000000000000ull | (uint8_t)line[i];
    while (tohost) continue;
  }
  length = 0;
}

static void put_text(const char *text) {
  while (*text) put(*text++);
}

static void put_number(uint64_t value) {
  put(' ');
  for (int shift = 60; shift >= 0; shift -= 4) put("0123456789abcdef"[value >> shift & 15]);
}

static uint64_t hash(const struct argument *a) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (uint64_t i = 0; i < a->words; i++) h = (h ^ a->data[i]) * 0x100000001b3ull;
  return h;
}

static uint64_t *address(int i) { return i < COUNT ? ARGUMENTS[i].data : 0; }

static void print_values(int i) {
  put_text("tilewright-values");
  put_number(NONCE);
  put_number(i);
  for (uint64_t word = 0; word < ARGUMENTS[i].words; word++) {
    print();
    put_number(ARGUMENTS[i].data[word]);
  }
  put('\n');
  print();
}

void MAIN(void) {
  uint64_t cycles, cycles_end, instructions, instructions_end;
  __asm__ volatile(".insn r 0x7b, 3, 7, x0, x0, x0" ::: "memory"); /* Gemmini's flush */
  FENCE();
  READ(minstret, instructions);
  READ(mcycle, cycles);
  kernel(address(0), address(1), address(2), address(3), address(4), address(5), address(6),
         address(7));
  FENCE();
  READ(mcycle, cycles_end);
  READ(minstret, instructions_end);
  put_text("tilewright");
  put_number(NONCE);
  put_number(cycles_end - cycles);
  put_number(instructions_end - instructions);
  for (int i = 0; i < COUNT; i++) put_number(hash(&ARGUMENTS[i]));
  put('\n');
  print();
  for (int i = 0; i < COUNT; i++)
    if (VALUES >> i & 1) print_values(i);
}
