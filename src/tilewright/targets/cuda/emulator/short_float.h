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
  inline T hexp(T a) { return T(std::exp((float)a)); }                                                    \
  inline T hsqrt(T a) { return T(std::sqrt((float)a)); }                                                  \
  inline P make_##pair(T x, T y) { return {x, y}; }                                                       \
  inline P __##name##s2##pair(T x, T y) { return {x, y}; }                                                \
  inline P __##name##2##pair(T x) { return {x, x}; }                                                      \
  inline P __floats2##pair##_rn(float x, float y) { return {T(x), T(y)}; }                                \
  inline P __float2##pair##_rn(float x) { return {T(x), T(x)}; }                                          \
  inline P __float22##pair##_rn(float2 v) { return {T(v.x), T(v.y)}; }                                    \
  inline float2 __##pair##2float2(P v) { return {(float)v.x, (float)v.y}; }                               \
  inline float __low2float(P v) { return v.x; }                                                           \
  inline float __high2float(P v) { return v.y; }                                                          \
  inline T __low2##name(P v) { return v.x; }                                                              \
  inline T __high2##name(P v) { return v.y; }                                                             \
  inline P __hadd2(P a, P b) { return {a.x + b.x, a.y + b.y}; }                                           \
  inline P __hsub2(P a, P b) { return {a.x - b.x, a.y - b.y}; }                                           \
  inline P __hmul2(P a, P b) { return {a.x * b.x, a.y * b.y}; }                                           \
  inline P __hmax2(P a, P b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                             \
  inline P __hmin2(P a, P b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }                             \
  inline P __hfma2(P a, P b, P c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }              \
  inline P operator+(P a, P b) { return __hadd2(a, b); }                                                  \
  inline P operator*(P a, P b) { return __hmul2(a, b); }
