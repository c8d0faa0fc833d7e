/* Kernels run without an operating system and without a C library. This header exists so that code
   which includes it builds; what it asserts is not tested. */
#undef assert
#define assert(condition) ((void)0)
