"""Functions on vectors that rewritten kernels bring along, as C text for a number of lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

VECTOR_OF: Mapping[str, str] = {
    "expf": "v_exp",
    "fmaxf": "v_max",
    "fminf": "v_min",
    "sqrtf": "v_sqrt",
    "fabsf": "v_abs",
}
"""The function on vectors that does what one on floats does."""

SCALAR_OF_REDUCTION: Mapping[str, str] = {"v_sum": "+", "v_most": "fmaxf", "v_least": "fminf"}
"""What combines the lanes of a vector to a float."""

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "v_exp": ("v_max", "v_min"),
    "v_most": ("v_max",),
    "v_least": ("v_min",),
}

_TEXTS: Mapping[str, str] = {
    "v_splat": "static inline vf v_splat(float x) { return x - (vf){0}; }",
    "v_max": """\
static inline vf v_max(vf a, vf b) {
  vi more = a > b;
  return (vf)(((vi)a & more) | ((vi)b & ~more));
}""",
    "v_min": """\
static inline vf v_min(vf a, vf b) {
  vi less = a < b;
  return (vf)(((vi)a & less) | ((vi)b & ~less));
}""",
    "v_abs": "static inline vf v_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }",
    "v_sqrt": """\
static inline vf v_sqrt(vf a) {
  for (int i = 0; i < LANES; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}""",
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
}


def vector_types(lanes: int) -> str:
    """The types of vectors; they may lie at any address and alias arrays of floats."""
    how = f"__attribute__((vector_size({4 * lanes}), aligned(4), may_alias))"
    return f"typedef float vf {how};\ntypedef int vi {how};"


def definitions(used: Iterable[str], lanes: int) -> list[str]:
    """C texts of the functions that are used, in an order in which they can stand."""
    wanted: set[str] = set()

    def want(name: str) -> None:
        wanted.add(name)
        for other in _NEEDS.get(name, ()):
            want(other)

    for name in used:
        want(name)
    order = [*(n for n in _TEXTS if n != "v_exp"), "v_exp", *SCALAR_OF_REDUCTION]
    return [_text(name, lanes) for name in order if name in wanted]


def is_vector_function(name: str) -> bool:
    """Whether a name is one of these functions."""
    return name in _TEXTS or name in SCALAR_OF_REDUCTION


def _text(name: str, lanes: int) -> str:
    if name in SCALAR_OF_REDUCTION:
        return _reduction(name, lanes)
    return _TEXTS[name].replace("LANES", str(lanes))


def _reduction(name: str, lanes: int) -> str:
    """Halves are combined until one lane holds the result."""
    lines = []
    distance = lanes // 2
    while distance:
        order = ", ".join(str(lane ^ distance) for lane in range(lanes))
        other = f"__builtin_shuffle(a, (vi){{{order}}})"
        together = {
            "v_sum": f"a + {other}",
            "v_most": f"v_max(a, {other})",
            "v_least": f"v_min(a, {other})",
        }[name]
        lines.append(f"  a = {together};")
        distance //= 2
    return "\n".join([f"static inline float {name}(vf a) {{", *lines, "  return a[0];", "}"])
