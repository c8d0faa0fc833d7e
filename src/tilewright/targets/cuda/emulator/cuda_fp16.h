/* `half` of the CUDA toolkit: sixteen bits, each operation computed in float and rounded once. */
#pragma once
#include "device.h"
#include "short_float.h"
TW_SHORT_FLOAT(__half, __half2, half, half2, tw::half_bits, tw::half_value)
typedef __half half;
typedef __half2 half2;
