/* `__nv_bfloat16` of the CUDA toolkit: sixteen bits, each operation computed in float and rounded once. */
#pragma once
#include "device.h"
#include "short_float_more.h"
TW_SHORT_FLOAT(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162, tw::bfloat_bits, tw::bfloat_value)
TW_SHORT_FLOAT_MORE(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
