/* Linked with every kernel: the four functions a compiler may call on its own when it compiles C
   without a library, and a reference that makes a missing `kernel` a link error. */
#include <stddef.h>

void kernel(void);
void (*const tilewright_entry_)(void) __attribute__((used)) = kernel;

void *memcpy(void *to, const void *from, size_t bytes) {
  unsigned char *t = to;
  const unsigned char *f = from;
  while (bytes--) *t++ = *f++;
  return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
  unsigned char *t = to;
  const unsigned char *f = from;
  if (t < f) return memcpy(to, from, bytes);
  while (bytes--) t[bytes] = f[bytes];
  return to;
}

void *memset(void *to, int value, size_t bytes) {
  unsigned char *t = to;
  while (bytes--) *t++ = (unsigned char)value;
  return to;
}

int memcmp(const void *left, const void *right, size_t bytes) {
  const unsigned char *l = left, *r = right;
  for (; bytes--; l++, r++)
    if (*l != *r) return *l - *r;
  return 0;
}
