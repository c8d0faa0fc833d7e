/* Kernels run without an operating system and without a C library. This header exists so that code
   which includes it builds; these four functions exist (runtime.c). */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);
