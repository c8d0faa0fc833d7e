/* Functions of cuda_fp16.h and cuda_bf16.h that few kernels call: conversions that round to a chosen side, comparisons
   that also hold for what is not a number, and operations whose results are limited. */
#pragma once
#include "short_float.h"

namespace tw {
template <class T> inline T rounded(double number, int side) {
  T near;
  near.stored = tw_rounded(bits<uint64_t>(number), T(3e38f).stored != 0x7c00, side);
  return near;
}
template <class T> inline T rounded_down(double number) { return rounded<T>(number, -1); }
template <class T> inline T rounded_up(double number) { return rounded<T>(number, 1); }
template <class T> inline T rounded_to_zero(double number) { return rounded<T>(number, 0); }
}  // namespace tw

#define TW_TO_WHOLE(T, name, short_name, type)                                                            \
  inline type __##name##2##short_name##_rn(T a) { return tw::whole<type>(std::nearbyint((float)a)); }     \
  inline type __##name##2##short_name##_rz(T a) { return tw::whole<type>((float)a); }                     \
  inline type __##name##2##short_name##_rd(T a) { return tw::whole<type>(std::floor((float)a)); }         \
  inline type __##name##2##short_name##_ru(T a) { return tw::whole<type>(std::ceil((float)a)); }
#define TW_OF_WHOLE(T, name, short_name, type)                                                            \
  inline T __##short_name##2##name##_rn(type a) { return T((double)a); }                                  \
  inline T __##short_name##2##name##_rz(type a) { return tw::rounded_to_zero<T>((double)a); }             \
  inline T __##short_name##2##name##_rd(type a) { return tw::rounded_down<T>((double)a); }                \
  inline T __##short_name##2##name##_ru(type a) { return tw::rounded_up<T>((double)a); }
/* The opposite of an ordered comparison; for pairs also as a mask and as one truth value. */
#define TW_UNORDERED(T, P, how, opposite)                                                                 \
  inline bool __h##how##u(T a, T b) { return !(opposite); }                                               \
  inline P __h##how##u2(P a, P b) { return {T(__h##how##u(a.x, b.x)), T(__h##how##u(a.y, b.y))}; }        \
  inline bool __hb##how##u2(P a, P b) { return __h##how##u(a.x, b.x) && __h##how##u(a.y, b.y); }          \
  TW_MASK(P, how##u) TW_MASK(P, how)
#define TW_MASK(P, how)                                                                                   \
  inline unsigned __h##how##2_mask(P a, P b) { return 0xffffu * __h##how(a.x, b.x) | 0xffff0000u * __h##how(a.y, b.y); }
#define TW_LIMITED(T, P, operation)                                                                       \
  inline T __h##operation##_rn(T a, T b) { return __h##operation(a, b); }                                 \
  inline P __h##operation##2_rn(P a, P b) { return __h##operation##2(a, b); }                             \
  inline P __h##operation##2_sat(P a, P b) { return {__h##operation##_sat(a.x, b.x), __h##operation##_sat(a.y, b.y)}; }
#define TW_SHORT_FLOAT_MORE(T, P, name, pair)                                                             \
  inline T __float2##name##_rz(float a) { return tw::rounded_to_zero<T>(a); }                             \
  inline T __float2##name##_rd(float a) { return tw::rounded_down<T>(a); }                                \
  inline T __float2##name##_ru(float a) { return tw::rounded_up<T>(a); }                                  \
  inline int __##name##2int_rd(T a) { return tw::whole<int>(std::floor((float)a)); }                      \
  inline int __##name##2int_ru(T a) { return tw::whole<int>(std::ceil((float)a)); }                       \
  inline unsigned __##name##2uint_rn(T a) { return tw::whole<unsigned>(std::nearbyint((float)a)); }       \
  inline unsigned __##name##2uint_rd(T a) { return tw::whole<unsigned>(std::floor((float)a)); }           \
  inline unsigned __##name##2uint_ru(T a) { return tw::whole<unsigned>(std::ceil((float)a)); }            \
  inline signed char __##name##2char_rz(T a) { return tw::whole<signed char>((float)a); }                 \
  inline unsigned char __##name##2uchar_rz(T a) { return tw::whole<unsigned char>((float)a); }            \
  TW_TO_WHOLE(T, name, short, short) TW_TO_WHOLE(T, name, ushort, unsigned short)                         \
  TW_OF_WHOLE(T, name, short, short) TW_OF_WHOLE(T, name, ushort, unsigned short)                         \
  inline T __int2##name##_rz(int a) { return tw::rounded_to_zero<T>(a); }                                 \
  inline T __int2##name##_rd(int a) { return tw::rounded_down<T>(a); }                                    \
  inline T __int2##name##_ru(int a) { return tw::rounded_up<T>(a); }                                      \
  inline T __uint2##name##_rz(unsigned a) { return tw::rounded_to_zero<T>(a); }                           \
  inline T __uint2##name##_rd(unsigned a) { return tw::rounded_down<T>(a); }                              \
  inline T __uint2##name##_ru(unsigned a) { return tw::rounded_up<T>(a); }                                \
  TW_UNORDERED(T, P, eq, __hne(a, b)) TW_UNORDERED(T, P, ne, __heq(a, b)) TW_UNORDERED(T, P, lt, __hge(a, b)) \
  TW_UNORDERED(T, P, le, __hgt(a, b)) TW_UNORDERED(T, P, gt, __hle(a, b)) TW_UNORDERED(T, P, ge, __hlt(a, b)) \
  inline int __hisinf(T a) { return (a.stored & 0x7fff) == T(CUDART_INF_F).stored ? a.stored >> 15 ? -1 : 1 : 0; } \
  inline P __hisnan2(P a) { return {T(__hisnan(a.x)), T(__hisnan(a.y))}; }                                \
  inline T __hsub_sat(T a, T b) { return T(__saturatef((float)a - (float)b)); }                           \
  inline T __hfma_sat(T a, T b, T c) { return T(__saturatef((float)__hfma(a, b, c))); }                   \
  inline P __hfma2_sat(P a, P b, P c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }  \
  TW_LIMITED(T, P, add) TW_LIMITED(T, P, sub) TW_LIMITED(T, P, mul)                                       \
  inline T __hmax_nan(T a, T b) { return __hisnan(a) || __hisnan(b) ? T(CUDART_NAN_F) : __hmax(a, b); }   \
  inline T __hmin_nan(T a, T b) { return __hisnan(a) || __hisnan(b) ? T(CUDART_NAN_F) : __hmin(a, b); }   \
  inline P __hmax2_nan(P a, P b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }                 \
  inline P __hmin2_nan(P a, P b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }                 \
  inline P __hcmadd(P a, P b, P c) {  /* of complex numbers */                                            \
    return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};           \
  }                                                                                                       \
  inline T htrunc(T a) { return T(std::trunc((float)a)); }                                                \
  inline T hlog10(T a) { return T(std::log10((float)a)); }                                                \
  inline T hexp10(T a) { return T(std::pow(10.0f, (float)a)); }                                           \
  inline T htanh_approx(T a) { return htanh(a); }                                                         \
  TW_OF_PAIR(P, h2trunc, htrunc) TW_OF_PAIR(P, h2ceil, hceil) TW_OF_PAIR(P, h2floor, hfloor)              \
  TW_OF_PAIR(P, h2rint, hrint) TW_OF_PAIR(P, h2log10, hlog10) TW_OF_PAIR(P, h2exp10, hexp10)              \
  TW_OF_PAIR(P, h2tanh_approx, htanh_approx)
