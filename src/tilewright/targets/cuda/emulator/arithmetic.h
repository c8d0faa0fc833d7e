/* Arithmetic of one thread: least and largest values, functions of the GPU, conversions, and operations on bits.

   How fast functions round on a GPU is not reproduced. In one of the two programs (see cpu_program.py) they are as
   exact as the others. In the other one, their results have errors of up to the bounds that NVIDIA documents (CUDA C++
   Programming Guide, "Intrinsic Functions"; a ulp is a unit of the last binary digit), because a kernel must not rely on
   smaller ones. The size of an error is a hash of the result. Results with few digits, such as __expf(0.0f), zeros,
   subnormal numbers, infinities and NaN stay exact. */
#pragma once

#define TW_LEAST(T)                                                      \
  inline constexpr T min(T a, T b) { return b < a ? b : a; }             \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
TW_LEAST(int)
TW_LEAST(unsigned)
TW_LEAST(long)
TW_LEAST(unsigned long)
TW_LEAST(long long)
TW_LEAST(unsigned long long)
#undef TW_LEAST
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

namespace tw {
/* A whole number that is there when it is used, as the recording of conditions needs it (condition_program.py): the
   compiler must not let a kernel's conditions take part in how the number is computed. */
template <class T> inline T recorded(T number) {
  asm("" : "+r"(number));
  return number;
}
/* One of two whole numbers without a branch, so that a choice by input values is recorded as a number. */
template <class T> inline T chosen(bool first, T a, T b) { return b ^ ((a ^ b) & -(T)recorded((int)first)); }
/* A number that differs from `exact` by 1 to `most` ulp. The sign stays. */
inline float within_ulps(float exact, double most) {
#ifndef __SANITIZE_THREAD__ /* the other program */
  return exact;
#endif
  unsigned at = bits<unsigned>(exact), exponent = at >> 23 & 0xff;
  bool few_digits = !(at & 0xff);
  if (few_digits || exponent == 0 || exponent == 0xff || !tw_is_large()) return exact;
  unsigned hash = at * 0x9e3779b1u;
  hash = (hash ^ hash >> 15) * 0x85ebca77u;
  hash ^= hash >> 13;
  unsigned limit = most < 1 ? 1 : most > 0x200000 ? 0x200000 : (unsigned)most; /* a quarter of the number */
  unsigned error = 1 + (hash >> 1) % limit;
  float found = bits<float>(hash & 1 ? at + error : at - error);
  return std::isfinite(found) ? found : exact;
}
/* A number that differs from `exact` by at most `most`, or by one ulp. */
inline float within(float exact, double most) {
  return within_ulps(exact, std::ldexp(most, 150 - (int)(bits<unsigned>(exact) >> 23 & 0xff)));
}
/* A logarithm of x: near 1, the documented bound is absolute. */
inline float logarithm(float x, float exact, double absolute, double ulps) {
  return 0.5f <= x && x <= 2.0f ? within(exact, absolute) : within_ulps(exact, ulps);
}
inline float sine(float exact, double absolute) {
  float found = within(exact, absolute);
  return std::fabs(found) > 1.0f ? exact : found;
}
}  // namespace tw

inline float rsqrtf(float x) { return tw::within_ulps((float)(1.0 / std::sqrt((double)x)), 2); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float fdividef(float a, float b) { return tw::within_ulps(a / b, 2); }
/* If the divisor is larger than 2^126, a GPU may give 0, or no number for an infinite dividend. */
inline float __fdividef(float a, float b) {
#ifdef __SANITIZE_THREAD__
  if (tw_is_large() && std::fabs(b) > 0x1p126f && std::isfinite(b)) return std::isfinite(a) ? 0.0f : NAN;
#endif
  return tw::within_ulps(a / b, 2);
}
inline float __expf(float x) { return tw::within_ulps(std::exp(x), 2 + std::floor(std::fabs(1.173 * x))); }
inline float __exp10f(float x) { return tw::within_ulps(std::pow(10.0f, x), 2 + std::floor(std::fabs(2.97 * x))); }
inline float __logf(float x) { return tw::logarithm(x, std::log(x), 0x1p-21 * 0.7526, 3); } /* 2^-21.41 */
inline float __log2f(float x) { return tw::logarithm(x, std::log2(x), 0x1p-22, 2); }
inline float __log10f(float x) { return tw::logarithm(x, std::log10(x), 0x1p-24, 3); }
inline float __powf(float x, float y) {
  bool derived = tw_is_large() && x > 0.0f && std::isnormal(x) && std::isfinite(y);
  return derived ? tw::within_ulps(std::exp2(y * __log2f(x)), 2) : std::pow(x, y);
}
inline float __sinf(float x) { return tw::sine(std::sin(x), 0x1p-21 * 0.7526); } /* 2^-21.41 */
inline float __cosf(float x) { return tw::sine(std::cos(x), 0x1p-21 * 0.8766); } /* 2^-21.19 */
inline float __tanf(float x) { return tw_is_large() ? __sinf(x) * (1.0f / __cosf(x)) : std::tan(x); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __fadd_rn(float a, float b) { return __builtin_assoc_barrier(a + b); }
inline float __fsub_rn(float a, float b) { return __builtin_assoc_barrier(a - b); }
inline float __fmul_rn(float a, float b) { return __builtin_assoc_barrier(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return (float)(1.0 / std::sqrt((double)a)); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return __builtin_assoc_barrier(a + b); }
inline double __dsub_rn(double a, double b) { return __builtin_assoc_barrier(a - b); }
inline double __dmul_rn(double a, double b) { return __builtin_assoc_barrier(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }
inline double normcdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752); }
inline float erfcxf(float x) { return (float)(std::exp((double)x * x) * std::erfc((double)x)); }
inline float rcbrtf(float x) { return (float)(1.0 / std::cbrt((double)x)); }
inline double rcbrt(double x) { return 1.0 / std::cbrt(x); }
inline float rhypotf(float x, float y) { return (float)(1.0 / std::hypot((double)x, (double)y)); }
inline float norm3df(float a, float b, float c) { return (float)std::sqrt((double)a * a + (double)b * b + (double)c * c); }
inline float norm4df(float a, float b, float c, float d) {
  return (float)std::sqrt((double)a * a + (double)b * b + (double)c * c + (double)d * d);
}
inline float rnorm3df(float a, float b, float c) { return (float)(1.0 / std::sqrt((double)a * a + (double)b * b + (double)c * c)); }
inline float rnorm4df(float a, float b, float c, float d) {
  return (float)(1.0 / std::sqrt((double)a * a + (double)b * b + (double)c * c + (double)d * d));
}
/* The remainder of a division by 2 is exact, so that large arguments lose nothing. */
inline float sinpif(float x) { return (float)std::sin(3.14159265358979324 * std::fmod((double)x, 2.0)); }
inline float cospif(float x) { return (float)std::cos(3.14159265358979324 * std::fmod((double)x, 2.0)); }
inline void sincospif(float x, float *sine, float *cosine) { *sine = sinpif(x), *cosine = cospif(x); }

/* As a GPU converts: the nearest possible number, and 0 for what is not a number. */
namespace tw {
template <class To, class From> inline To whole(From x) {
  constexpr To least = std::is_signed<To>::value ? To(1) << (8 * sizeof(To) - 1) : 0, most = To(~least);
  To found = x != x ? To(0) : x <= (From)least ? least : x >= (From)most ? most : (To)x;
  return recorded(found);
}
}  // namespace tw
inline int __float_as_int(float x) { return tw::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return tw::bits<unsigned>(x); }
inline float __int_as_float(int x) { return tw::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return tw::bits<float>(x); }
inline long long __double_as_longlong(double x) { return tw::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return tw::bits<double>(x); }
inline int __float2int_rn(float x) { return tw::whole<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return tw::whole<int>(x); }
inline int __float2int_rd(float x) { return tw::whole<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return tw::whole<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return tw::whole<unsigned>(std::nearbyint(x)); }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline long long __float2ll_rn(float x) { return tw::whole<long long>(std::nearbyint(x)); }
inline long long __float2ll_rz(float x) { return tw::whole<long long>(x); }
inline int __double2int_rn(double x) { return tw::whole<int>(std::nearbyint(x)); }
inline int __double2int_rz(double x) { return tw::whole<int>(x); }
inline float __double2float_rn(double x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline double __hiloint2double(int high, int low) {
  return tw::bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}
inline int __double2hiint(double x) { return (int)(tw::bits<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return (int)tw::bits<unsigned long long>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t both = (uint64_t)y << 32 | x;
  unsigned chosen = 0;
  for (int i = 0; i < 4; i++) chosen |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return chosen;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
  return c;
}
#define TW_OF_BYTES(name, part, lanes, bits, expression)                  \
  inline unsigned name(unsigned x, unsigned y) {                          \
    unsigned all = 0;                                                     \
    for (int i = 0; i < lanes; i++) {                                     \
      part a = (part)(x >> bits * i), b = (part)(y >> bits * i);          \
      all |= ((unsigned)(expression) & ((1u << bits) - 1)) << bits * i;   \
    }                                                                     \
    return all;                                                           \
  }
TW_OF_BYTES(__vadd4, uint8_t, 4, 8, a + b)
TW_OF_BYTES(__vsub4, uint8_t, 4, 8, a - b)
TW_OF_BYTES(__vmaxs4, int8_t, 4, 8, a < b ? b : a)
TW_OF_BYTES(__vmaxu4, uint8_t, 4, 8, a < b ? b : a)
TW_OF_BYTES(__vmins4, int8_t, 4, 8, b < a ? b : a)
TW_OF_BYTES(__vminu4, uint8_t, 4, 8, b < a ? b : a)
TW_OF_BYTES(__vabsdiffu4, uint8_t, 4, 8, a < b ? b - a : a - b)
TW_OF_BYTES(__vcmpeq4, uint8_t, 4, 8, tw::chosen(a == b, 255, 0))
TW_OF_BYTES(__vcmpgtu4, uint8_t, 4, 8, tw::chosen(a > b, 255, 0))
TW_OF_BYTES(__vadd2, uint16_t, 2, 16, a + b)
TW_OF_BYTES(__vsub2, uint16_t, 2, 16, a - b)
TW_OF_BYTES(__vmaxs2, int16_t, 2, 16, a < b ? b : a)
TW_OF_BYTES(__vmins2, int16_t, 2, 16, b < a ? b : a)
#undef TW_OF_BYTES
inline int __sad(int a, int b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
inline int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
