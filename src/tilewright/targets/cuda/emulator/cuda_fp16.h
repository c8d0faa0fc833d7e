/* `half` of the CUDA toolkit: sixteen bits, each operation computed in float and rounded once. */
#pragma once
#include "device.h"
#include "short_float_more.h"
TW_SHORT_FLOAT(__half, __half2, half, half2, tw::half_bits, tw::half_value)
TW_SHORT_FLOAT_MORE(__half, __half2, half, half2)
typedef __half half;
typedef __half2 half2;
