"""The vector functions that stand for functions of math.h, as C text.

Each is within 2 units in the last place over its whole range. `LANES` stands for the number of
lanes.
"""

from __future__ import annotations

from collections.abc import Mapping

_TURNS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163
"""The first 216 bits of 2 / pi after the point."""
_ANGLES = 135
"""Number of bits at which 96 bits of 2 / pi begin for some angle from 0.5 on."""


def _windows() -> str:
    """32 bits of 2 / pi from each bit on, after 32 bits that are zero."""
    bits = 32 + 216
    words = [(_TURNS >> (bits - 32 - first)) % (1 << 32) for first in range(_ANGLES + 64)]
    lines = [", ".join(f"{word}u" for word in words[at : at + 8]) for at in range(0, len(words), 8)]
    return ",\n    ".join(lines)


def _of_quarter(name: str, function: str, quarter: str, turned: str, sign: str = "") -> str:
    """The sine or cosine of each lane; `quarter` is added to the number of quarter turns.

    `turned` are statements that compute `r`, an angle of less than half a quarter turn, and the
    number of quarter turns that were subtracted, `turns`. `sign` changes the sign of the result.
    """
    return f"""\
/* {function} of each lane, within 2 units in the last place */
static inline vf {name}(vf x) {{
{turned}
  turns = turns{quarter};
  vf z = r * r;
  vf s = z * -1.9515295891e-4f + 8.3321608736e-3f;
  s = (s * z - 1.6666654611e-1f) * z * r + r;
  vf c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
  c = (c * z + 4.166664568298827e-2f) * z * z - z * 0.5f + 1.0f;
  vf y = v_select((vf)-(turns & 1), c, s);
  return (vf)((vi)y ^ ((turns & 2) << 30){sign});
}}"""


def _circular(name: str, quarter: str) -> str:
    """The sine or cosine of each lane, with a branch for large angles."""
    large = f"""\
static __attribute__((noinline)) vf v_{name}_of_large(vf x) {{
  for (int i = 0; i < LANES; i++) x[i] = __builtin_{name}f(x[i]);
  return x;
}}
"""
    turned = f"""\
  const vf magic = (vf){{0}} + 12582912.0f;
  vi far = ~(((vi)x & 0x7fffffff) < 0x47c35000), any = far;
  for (int i = LANES / 2; i; i /= 2) any |= __builtin_shuffle(any, PLACES ^ i);
  if (__builtin_expect(any[0], 0)) return v_{name}_of_large(x);
  vf n = x * 0.636619772f + magic;
  vi turns = (vi)n;
  n = n - magic;
  vf a = x - n * 1.5703125f - n * 4.730224609375e-4f - n * 1.0788440704345703e-5f;
  vf b = a - n * 1.5832483768463135e-8f;
  vf low = (a - b) - n * 1.5832483768463135e-8f - n * 6.048139766789973e-11f;
  vf d = b + low;
  vf r = d + ((b - d) + low - n * 2.896074e-13f);"""
    return large + _of_quarter(f"v_{name}", name, quarter, turned)


def _circular_of_any(name: str, quarter: str) -> str:
    """The sine or cosine of each lane without a branch for large angles."""
    turned = """\
  vi turns;
  vf r = v_turned(v_abs(x), &turns);"""
    sign = " ^ ((vi)x & ~0x7fffffff)" if name == "sin" else ""
    return _of_quarter(f"v_{name}_of_any", name, quarter, turned, sign)


MATHEMATICAL_TEXTS: Mapping[str, str] = {
    # Range reduction by multiples of log 2 in two parts, then the polynomial of Cephes' expf
    # (S. L. Moshier, Methods and Programs for Mathematical Functions), and the power of two in two
    # factors, so that subnormal and the largest results are right as well.
    "v_exp": """\
/* e to the power of each lane, within 2 units in the last place */
static inline vf v_exp(vf x) {
  const vf magic = (vf){0} + 12582912.0f;
  x = v_max(v_min(x, (vf){0} + 89.0f), (vf){0} - 104.0f);
  vf n = x * 1.44269504f + magic;
  n = n - magic;
  vf r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
  return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}""",
    # Near zero the polynomial of Cephes' tanhf, elsewhere 1 - 2 / (exp(2 |x|) + 1).
    "v_tanh": """\
/* hyperbolic tangent of each lane, within 2 units in the last place */
static inline vf v_tanh(vf x) {
  vf size = v_abs(x), z = x * x;
  vf far = 1.0f - 2.0f / (v_exp(size + size) + 1.0f);
  far = (vf)((vi)far | ((vi)x & ~0x7fffffff));
  vf p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  return v_select((vf)(size < 0.625f), p * z * x + x, far);
}""",
    # Two minimax polynomials: x + x p(x x) near zero, 1 - exp(q(|x|)) elsewhere.
    "v_erf": """\
/* error function of each lane, within 2 units in the last place */
static inline vf v_erf(vf x) {
  vf t = v_abs(x), s = x * x;
  t = v_select((vf)(t < 4.0f), t, (vf){0} + 4.0f);
  vf q = t * -1.72853470e-5f + 3.83197126e-4f;
  q = q * t - 3.88396438e-3f;
  q = q * t + 2.42546219e-2f;
  q = q * t - 1.06777877e-1f;
  q = q * t - 6.34846687e-1f;
  q = q * t - 1.28717512e-1f;
  vf far = 1.0f - v_exp(q * t - t);
  far = (vf)((vi)far | ((vi)x & ~0x7fffffff));
  vf p = s * -5.96761703e-4f + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  return v_select((vf)(t < 0.927734375f), p * x + x, far);
}""",
    # The polynomial of Cephes' logf on a fraction near 1; subnormal numbers are scaled up before.
    "v_log": """\
/* natural logarithm of each lane, within 2 units in the last place */
static inline vf v_log(vf x) {
  vi tiny = x < 1.17549435e-38f;
  vf up = v_select((vf)tiny, x * 8388608.0f, x);
  vi exponent = ((vi)up >> 23) - 126 + (tiny & -23);
  vf m = (vf)(((vi)up & 0x007fffff) | 0x3f000000);
  vi low = m < 0.707106781f;
  exponent += low;
  vf e = __builtin_convertvector(exponent, vf);
  m = v_select((vf)low, m + m, m) - 1.0f;
  vf z = m * m;
  vf p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z - e * 2.12194440e-4f - z * 0.5f;
  vf y = m + p + e * 0.693359375f;
  y = v_select((vf)(x < __builtin_inff()), y, x);
  y = v_select((vf)(x > 0.0f), y, (vf){0} + __builtin_nanf(""));
  return v_select((vf)(x == 0.0f), (vf){0} - __builtin_inff(), y);
}""",
    # Quarter turns are subtracted in six parts, of which the first five have so few bits that their
    # products with up to 65,536 turns are exact. What is rounded off is added. Then the polynomials
    # of Cephes' sinf and cosf. A vector with an angle of 100,000 or more is computed lane by lane.
    "v_sin": _circular("sin", ""),
    "v_cos": _circular("cos", " + 1"),
    # The method of Payne and Hanek (Radian reduction for trigonometric functions, 1983): the
    # mantissa is multiplied by 96 bits of 2 / pi, of which the first are those that make less than
    # four quarter turns. `x * 0.0f` is not a number if x is infinite.
    "v_turned": f"""\
/* each lane, which is not negative, minus quarter turns, whose number is stored modulo 4 */
static inline vf v_turned(vf x, vi *turns) {{
  static const unsigned bits[] = {{
    {_windows()},
  }};
  typedef unsigned vu __attribute__((vector_size(SIZE)));
  typedef unsigned long long vw __attribute__((vector_size(2 * SIZE)));
  typedef double vd __attribute__((vector_size(2 * SIZE)));
  vi far = (vi)x >= 0x3f000000, at = ((vi)x >> 23) - 120;
  at &= at > 0;
  vu a, b, c, m = ((vu)x & 0x007fffff) | 0x00800000;
  for (int i = 0; i < LANES; i++) a[i] = bits[at[i]];
  for (int i = 0; i < LANES; i++) b[i] = bits[at[i] + 32];
  for (int i = 0; i < LANES; i++) c[i] = bits[at[i] + 64];
  vw wide = __builtin_convertvector(m, vw);
  vw all = __builtin_convertvector(m * a, vw) << 32;
  all += wide * __builtin_convertvector(b, vw);
  all += wide * __builtin_convertvector(c, vw) >> 32;
  vu high = __builtin_convertvector(all >> 32, vu), n = (high + 0x20000000u) >> 30;
  vi low = (vi)(__builtin_convertvector(all, vu) >> 1), rest = (vi)(high - (n << 30));
  vd exact = __builtin_convertvector(rest, vd) * 2147483648.0 + __builtin_convertvector(low, vd);
  vf r = __builtin_convertvector(exact * 6.812243160173109e-19, vf);
  *turns = (vi)n & far;
  return v_select((vf)far, r, x) + x * 0.0f;
}}""",
    "v_sin_of_any": _circular_of_any("sin", ""),
    "v_cos_of_any": _circular_of_any("cos", " + 1"),
}
"""The text of each function."""
