/* Kernels run without an operating system and without a C library. This header exists so that code
   which includes it builds; calling a function of the library is an error of the linker. */
#include <stddef.h>
