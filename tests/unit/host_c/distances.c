// The compiler's places of variables decide the result of each line that ends with FOUND.
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#define APART __attribute__((noinline))
typedef unsigned long pair __attribute__((vector_size(16)));
struct ring { float data[8], *head, *tail; };
struct arena { char *at; };
struct range { float *begin, *end; long count; };
static volatile char first[8] = {1}, second[8] = {1};
static volatile char *volatile addresses[2] = {first, second};
static volatile char *volatile kept, *volatile older;
static float packed[256];
uintptr_t number;
APART uintptr_t from(char *other) { volatile char c[24]; c[0] = 1; return (uintptr_t)other - (uintptr_t)c; } // FOUND
APART uintptr_t place(void) { volatile char c[24]; c[0] = 1; return (uintptr_t)c; }
APART uintptr_t deeper(void) { volatile char c[64]; c[0] = 1; uintptr_t at = place(); c[1] = 1; return at; }
APART int above(char *a, char *b) { return a < b; } // FOUND
APART int lowest(char *a) { return (uintptr_t)a & 31; } // FOUND
APART int is_null(char *a) { return !a; } // FOUND
APART uintptr_t low_bits(char *a) { return ((uintptr_t)a & -16) - ((uintptr_t)a & -64); } // FOUND
APART int wraps(char *a, uint8_t by) { uint8_t low = (uintptr_t)a, more = low + by; return more < low; } // FOUND
APART void put(char *a, char *b) { *(char **)(((uintptr_t)a + 15) & -16) = b; }
APART char *moved(char *a, uintptr_t by) { return (char *)((uintptr_t)a - by); }
APART uintptr_t level(int n, char *outer) {
  char c[8]; memset(c, n, 8); kept = c;
  if (n == 0) return (uintptr_t)outer - (uintptr_t)c; // FOUND
  uintptr_t r = level(n - 1, n & 1 ? c : outer); kept = c; return r;
}
APART uintptr_t inner(int n, char *outer) {
  char c[8], *o = number ? c : outer; memset(c, n, 8); kept = c;
  if (n == 0) return o - c; // FOUND
  uintptr_t r = inner(n - 1, c); kept = c; return r;
}
APART uintptr_t keeps(int is_first) {
  char c[8]; memset(c, 1, 8);
  if (is_first) { older = c; return 0; }
  return (uintptr_t)older - (uintptr_t)c; // FOUND
}
APART uintptr_t given(int n, ...) { va_list all; va_start(all, n); uintptr_t f = (uintptr_t)va_arg(all, char *); va_end(all); return f; }
void statics(int *to) {
  to[0] = (uintptr_t)second - (uintptr_t)first == 8000; // FOUND
  to[2] = (uintptr_t)first == 8000; // FOUND
  to[3] = ((uintptr_t)first & 63) == 48; // FOUND
  to[4] = (uintptr_t)addresses[1] - (uintptr_t)addresses[0] == 8000; // FOUND
  to[5] = (uintptr_t)first - (uintptr_t)above == 8000; // FOUND
  pair a = {(uintptr_t)first, (uintptr_t)second}, b = {(uintptr_t)second, (uintptr_t)first};
  a -= b; to[6] = a[0] == 8000; // FOUND
  to[7] = is_null(moved((char *)first, number));
}
void locals(int *to) {
  char x[16], y[40], *p; memset(x, to[0], 16); memset(y, to[1], 40);
  to[2] = (uintptr_t)x - (uintptr_t)y == 8000; // FOUND
  to[3] = ((uintptr_t)x ^ (uintptr_t)y) == 8000; // FOUND
  to[4] = (float)(uintptr_t)x == 8000; // FOUND
  to[5] = above(x, y + 1) + lowest(y);
  p = __builtin_alloca(to[9]); memset(p, 1, to[9]);
  to[6] = (uintptr_t)x - (uintptr_t)p == 8000; // FOUND
  p = to[10] ? x : (char *)to; memset(p, 1, 4);
  to[7] = x - p; // FOUND
  to[8] = place() - deeper() == 8000; // FOUND
  to[9] = from(x); to[10] = level(5, x); keeps(1); to[11] = keeps(0);
  p = y;
  to[13] = __builtin_ctzl((uintptr_t)p); // FOUND
  { char z[8]; memset(z, 3, 8); kept = z; p = z; to[14] += p[1]; }
  { char z[8]; memset(z, 4, 8); to[15] = z - p; kept = z; } // FOUND
  uintptr_t at[4]; at[to[1]] = (uintptr_t)x; at[to[2]] = (uintptr_t)y;
  to[16] = at[to[3]] - at[to[4]]; // FOUND
  char *both[2] = {x, y}, *copied[2]; memcpy(copied, both, to[5]);
  to[18] = copied[1] - copied[0]; // FOUND
  to[19] = (char *)(((uintptr_t)y + 15) & ~(uintptr_t)15) - y + inner(2, NULL); // FOUND
  to[17] = (char *)__builtin_frame_address(0) - y; // FOUND
  { char *now = x, *next = y, *last = NULL; for (int i = 0; i < 3; i++) {
    if (last) to[20] += now - last; // FOUND
    last = now; now = next; next = last; *last = i; } }
  to[24] = (uint8_t)(uintptr_t)y == 0; // FOUND
  to[21] = low_bits(y) + wraps(y, to[26]);
  { char z[64]; uintptr_t v; memset(z, 5, 64); put(z, y); memcpy(&v, z + to[22], 8);
  to[23] = v % 16 == 8; } // FOUND
}
APART float sum(const float *a, const float *e) { float s = 0; while (a != e) s += *a++; return s; }
APART float sum_below(const float *a, const float *e) { float s = 0; for (; a < e; a++) s += *a; return s; }
APART float sum_of(const struct range *r) { float s = 0; for (float *p = r->begin; p < r->end; p++) s += *p * r->count; return s; }
APART float add(const float *a, const float *b) { return b ? *a + *b : *a; }
APART float *end_of(float *a, int n) { return a + n; }
APART int is_apart(const float *a, const float *b, int n) { return a + n <= b || b + n <= a; }
APART int peel(const float *a) { int n = 0; while ((uintptr_t)(a + n) & 31) n++; return n; }
APART void halve(float *a, float *e) { if (e - a < 4) { while (a < e) *a++ *= 2; return; } float *m = a + (e - a) / 2; halve(a, m); halve(m, e); }
APART void push(struct ring *r, float v) { *r->head++ = v; if (r->head == r->data + 8) r->head = r->data; }
APART float *take(struct arena *a, int n) { char *p = (char *)(((uintptr_t)a->at + 63) & -64); a->at = p + n; return (float *)p; }
APART void sort(const float **rows, int n) { for (int i = 1; i < n; i++) { const float *x = rows[i]; int j = i; while (j > 0 && rows[j - 1] > x) { rows[j] = rows[j - 1]; j--; } rows[j] = x; } }
static float (*const functions[2])(const float *, const float *) = {sum, sum};
extern float twice(float), half(float);
static float (*volatile chosen)(float) = twice, (*const steps[])(float) = {half, twice, NULL};
void honest(const float *A, float *C, int n) {
  float one[64], two[64] __attribute__((aligned(64))), room[80], *slots[2] = {one, two}, *now = one;
  memcpy(one, A, 256); memcpy(two, A + 64, 256);
  for (float *p = one, *e = one + 64; p < e; p++) C[p - one] = *p;
  C[0] = sum(one, one + n) + sum(packed, packed + n) + sum_below(two, two + 64) + sum(A, A + n);
  for (int i = 0; i < n; i++) { C[i] += sum(now, now + 16); now = now == one ? two : one; }
  struct range r = {one, one + n, n * 3L}; C[1] = sum_of(&r);
  C[2] = add(one, n & 1 ? two : NULL) + add(A, C);
  C[3] = is_apart(A, C, n) + peel(A) + ((uintptr_t)two & 63);
  float *aligned = (float *)(((uintptr_t)room + 63) & ~(uintptr_t)63);
  for (float *p = aligned; p != aligned + 64; p++) *p = 1;
  for (int i = 0; i < n; i++) { float *last = slots[0]; slots[0] = slots[1]; slots[1] = last; C[i] += last[i] + *aligned; }
  C[4] = end_of(two, n) - two; C[5] = end_of(one, n) - one;
  halve(one, one + 64); C[6] = one[3];
  float vla[n]; memset(vla, 0, sizeof vla); for (float *p = vla; p != vla + n; p++) C[7] += *p;
  float *order[4] = {packed + 3, packed, packed + 9, packed + n};
  for (int i = 1; i < 4; i++) if (order[i - 1] > order[i]) { float *o = order[i]; order[i] = order[i - 1]; order[i - 1] = o; }
  C[8] = *order[0] + (functions[n & 1] == sum);
  { float *now = one, *next = two; for (int i = 0; i < n; i++) { for (float *p = now; p < now + 64; p++) next[p - now] = *p * A[i]; float *last = now; now = next; next = last; }
    for (float *p = now; p < now + 64; p++) C[p - now] = *p; }
  struct ring ring = {{0}, ring.data, ring.data}; for (int i = 0; i < n; i++) push(&ring, A[i]); C[9] = ring.head - ring.tail;
  struct arena arena = {(char *)packed}; C[10] = *take(&arena, n) + *take(&arena, n);
  const float *rows[4] = {room + 20 * (n & 3), room, room + 40, room + 60}; sort(rows, 4); C[11] = *rows[0];
  C[8] += chosen ? chosen(1) : 0;
  for (int i = 0; steps[i]; i++) C[12] = steps[i](C[12]);
}
