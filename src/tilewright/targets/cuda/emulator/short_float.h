/* A type of sixteen bits with arithmetic, and a pair of them: what cuda_fp16.h and cuda_bf16.h share. */
#pragma once
#include "device.h"

namespace tw {
inline unsigned short half_bits(float value) {  /* to nearest, ties to even */
  _Float16 half = (_Float16)value;
  return bits<unsigned short>(half);
}
inline float half_value(unsigned short stored) { return (float)bits<_Float16>(stored); }
inline unsigned short bfloat_bits(float value) {
  unsigned wide = bits<unsigned>(value);
  if (value != value) return 0x7fff;
  return (unsigned short)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}
inline float bfloat_value(unsigned short stored) { return bits<float>((unsigned)stored << 16); }
}  // namespace tw

#define TW_OF_PAIR(P, of_both, of_one) inline P of_both(P v) { return {of_one(v.x), of_one(v.y)}; }
/* 1 where it holds and 0 elsewhere; and whether it holds for both. */
#define TW_COMPARED(T, P, how)                                                                            \
  inline P __h##how##2(P a, P b) { return {T(__h##how(a.x, b.x)), T(__h##how(a.y, b.y))}; }               \
  inline bool __hb##how##2(P a, P b) { return __h##how(a.x, b.x) && __h##how(a.y, b.y); }
#define TW_SHORT_FLOAT(T, P, name, pair, to_bits, to_value)                                               \
  struct T {                                                                                              \
    unsigned short stored;                                                                                \
    T() = default;                                                                                        \
    T(float value) : stored(to_bits(value)) {}                                                            \
    T(double value) : stored(to_bits((float)value)) {}                                                    \
    T(int value) : stored(to_bits((float)value)) {}                                                       \
    operator float() const { return to_value(stored); }                                                   \
    T &operator+=(T b) { return *this = T((float)*this + (float)b); }                                     \
    T &operator-=(T b) { return *this = T((float)*this - (float)b); }                                     \
    T &operator*=(T b) { return *this = T((float)*this * (float)b); }                                     \
    T &operator/=(T b) { return *this = T((float)*this / (float)b); }                                     \
  };                                                                                                      \
  struct __attribute__((aligned(4))) P { T x, y; };                                                       \
  inline T operator+(T a, T b) { return T((float)a + (float)b); }                                         \
  inline T operator-(T a, T b) { return T((float)a - (float)b); }                                         \
  inline T operator*(T a, T b) { return T((float)a * (float)b); }                                         \
  inline T operator/(T a, T b) { return T((float)a / (float)b); }                                         \
  inline T operator-(T a) { return T(-(float)a); }                                                        \
  inline bool operator<(T a, T b) { return (float)a < (float)b; }                                         \
  inline bool operator>(T a, T b) { return (float)a > (float)b; }                                         \
  inline T __float2##name(float a) { return T(a); }                                                       \
  inline T __float2##name##_rn(float a) { return T(a); }                                                  \
  inline float __##name##2float(T a) { return (float)a; }                                                 \
  inline T __hadd(T a, T b) { return a + b; }                                                             \
  inline T __hsub(T a, T b) { return a - b; }                                                             \
  inline T __hmul(T a, T b) { return a * b; }                                                             \
  inline T __hdiv(T a, T b) { return a / b; }                                                             \
  inline T __hneg(T a) { return -a; }                                                                     \
  inline T __hfma(T a, T b, T c) { return T((float)((double)(float)a * (float)b + (float)c)); }            \
  inline T __hmax(T a, T b) { return T(fmaxf(a, b)); }                                                    \
  inline T __hmin(T a, T b) { return T(fminf(a, b)); }                                                    \
  inline bool __hgt(T a, T b) { return a > b; }                                                           \
  inline bool __hlt(T a, T b) { return a < b; }                                                           \
  inline bool __hge(T a, T b) { return (float)a >= (float)b; }                                            \
  inline bool __hle(T a, T b) { return (float)a <= (float)b; }                                            \
  inline bool __heq(T a, T b) { return (float)a == (float)b; }                                            \
  inline bool __hne(T a, T b) { return (float)a < (float)b || (float)a > (float)b; }                      \
  inline bool __hisnan(T a) { return (float)a != (float)a; }                                              \
  inline T __habs(T a) { return T(std::fabs((float)a)); }                                                 \
  inline T __hadd_sat(T a, T b) { return T(__saturatef((float)a + (float)b)); }                           \
  inline T __hmul_sat(T a, T b) { return T(__saturatef((float)a * (float)b)); }                           \
  inline T __hfma_relu(T a, T b, T c) { T r = __hfma(a, b, c); return (float)r > 0.0f || __hisnan(r) ? r : T(0.0f); }\
  inline T hlog(T a) { return T(std::log((float)a)); }                                                    \
  inline T hlog2(T a) { return T(std::log2((float)a)); }                                                  \
  inline T hexp2(T a) { return T(std::exp2((float)a)); }                                                  \
  inline T hrsqrt(T a) { return T(rsqrtf((float)a)); }                                                    \
  inline T hrcp(T a) { return T(1.0f / (float)a); }                                                       \
  inline T hsin(T a) { return T(std::sin((float)a)); }                                                    \
  inline T hcos(T a) { return T(std::cos((float)a)); }                                                    \
  inline T htanh(T a) { return T(std::tanh((float)a)); }                                                  \
  inline T hfloor(T a) { return T(std::floor((float)a)); }                                                \
  inline T hceil(T a) { return T(std::ceil((float)a)); }                                                  \
  inline T hrint(T a) { return T(std::rint((float)a)); }                                                  \
  inline unsigned short __##name##_as_ushort(T a) { return a.stored; }                                    \
  inline short __##name##_as_short(T a) { return (short)a.stored; }                                       \
  inline T __ushort_as_##name(unsigned short stored) { T a; a.stored = stored; return a; }                \
  inline T __short_as_##name(short stored) { return __ushort_as_##name((unsigned short)stored); }         \
  inline int __##name##2int_rn(T a) { return __float2int_rn((float)a); }                                  \
  inline int __##name##2int_rz(T a) { return __float2int_rz((float)a); }                                  \
  inline unsigned __##name##2uint_rz(T a) { return tw::whole<unsigned>((float)a); }                                  \
  inline T __int2##name##_rn(int a) { return T((double)a); }                                              \
  inline T __uint2##name##_rn(unsigned a) { return T((double)a); }                                        \
  inline T __double2##name(double a) { return T(a); }                                                     \
  inline T hexp(T a) { return T(std::exp((float)a)); }                                                    \
  inline T hsqrt(T a) { return T(std::sqrt((float)a)); }                                                  \
  inline P make_##pair(T x, T y) { return {x, y}; }                                                       \
  inline P __halves2##pair(T x, T y) { return {x, y}; }                                                   \
  inline P __##name##2##pair(T x) { return {x, x}; }                                                      \
  inline P __floats2##pair##_rn(float x, float y) { return {T(x), T(y)}; }                                \
  inline P __float2##pair##_rn(float x) { return {T(x), T(x)}; }                                          \
  inline P __float22##pair##_rn(float2 v) { return {T(v.x), T(v.y)}; }                                    \
  inline float2 __##pair##2float2(P v) { return {(float)v.x, (float)v.y}; }                               \
  inline float __low2float(P v) { return v.x; }                                                           \
  inline float __high2float(P v) { return v.y; }                                                          \
  inline T __low2##name(P v) { return v.x; }                                                              \
  inline T __high2##name(P v) { return v.y; }                                                             \
  inline P __low2##pair(P v) { return {v.x, v.x}; }                                                       \
  inline P __high2##pair(P v) { return {v.y, v.y}; }                                                      \
  inline P __lows2##pair(P a, P b) { return {a.x, b.x}; }                                                 \
  inline P __highs2##pair(P a, P b) { return {a.y, b.y}; }                                                \
  inline P __lowhigh2highlow(P v) { return {v.y, v.x}; }                                                  \
  inline P __hadd2(P a, P b) { return {a.x + b.x, a.y + b.y}; }                                           \
  inline P __hsub2(P a, P b) { return {a.x - b.x, a.y - b.y}; }                                           \
  inline P __hmul2(P a, P b) { return {a.x * b.x, a.y * b.y}; }                                           \
  inline P __hmax2(P a, P b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                             \
  inline P __hmin2(P a, P b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                             \
  inline P __hfma2(P a, P b, P c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }              \
  inline P __hfma2_relu(P a, P b, P c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }\
  inline P __h2div(P a, P b) { return {a.x / b.x, a.y / b.y}; }                                           \
  inline P __hneg2(P v) { return {-v.x, -v.y}; }                                                          \
  inline P __habs2(P v) { return {__habs(v.x), __habs(v.y)}; }                                            \
  TW_OF_PAIR(P, h2exp, hexp) TW_OF_PAIR(P, h2exp2, hexp2) TW_OF_PAIR(P, h2log, hlog) TW_OF_PAIR(P, h2log2, hlog2)\
  TW_OF_PAIR(P, h2sqrt, hsqrt) TW_OF_PAIR(P, h2rsqrt, hrsqrt) TW_OF_PAIR(P, h2rcp, hrcp)                  \
  TW_OF_PAIR(P, h2sin, hsin) TW_OF_PAIR(P, h2cos, hcos) TW_OF_PAIR(P, h2tanh, htanh)                      \
  TW_COMPARED(T, P, gt) TW_COMPARED(T, P, ge) TW_COMPARED(T, P, lt) TW_COMPARED(T, P, le) TW_COMPARED(T, P, eq)\
  TW_COMPARED(T, P, ne)                                                                                   \
  inline P operator+(P a, P b) { return __hadd2(a, b); }                                                  \
  inline P operator-(P a, P b) { return __hsub2(a, b); }                                                  \
  inline P operator*(P a, P b) { return __hmul2(a, b); }                                                  \
  inline P operator/(P a, P b) { return __h2div(a, b); }                                                  \
  inline P operator-(P v) { return __hneg2(v); }                                                          \
  inline P &operator+=(P &a, P b) { return a = a + b; }                                                   \
  inline P &operator-=(P &a, P b) { return a = a - b; }                                                   \
  inline P &operator*=(P &a, P b) { return a = a * b; }                                                   \
  inline P &operator/=(P &a, P b) { return a = a / b; }
