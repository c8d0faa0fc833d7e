"""The vector functions that rewritten kernels contain, as C text for a number of lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.proposers.loops.c_types import BYTES
from tilewright.proposers.loops.functions import CONVERTED, LOADS, SCALAR_OF_REDUCTION, STORES, WIDE
from tilewright.proposers.loops.mathematical import MATHEMATICAL_TEXTS

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "v_exp": ("v_max", "v_min"),
    "v_tanh": ("v_abs", "v_select", "v_exp"),
    "v_erf": ("v_abs", "v_select", "v_exp"),
    "v_log": ("v_select",),
    "v_sin": ("v_select",),
    "v_cos": ("v_select",),
    "v_turned": ("v_select",),
    "v_sin_of_any": ("v_abs", "v_turned"),
    "v_cos_of_any": ("v_abs", "v_turned"),
    "v_trunc": ("v_select",),
    "v_floor": ("v_trunc",),
    "v_ceil": ("v_trunc",),
    "v_round": ("v_trunc",),
    "v_most": ("v_max",),
    "v_least": ("v_min",),
    "v_bits_running": ("v_bits_plus",),
    "v_running_most": ("v_max",),
    "v_running_least": ("v_min",),
}

_TEXTS: Mapping[str, str] = {
    "v_splat": "static inline vf v_splat(float x) { return x - (vf){0}; }",
    "v_same": "static inline vf v_same(vf a) { return a; }",
    "v_max": "",
    "v_min": "",
    "v_abs": "static inline vf v_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }",
    "v_sqrt": """\
static inline vf v_sqrt(vf a) {
  for (int i = 0; i < LANES; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}""",
    # GCC makes a single blend of this form only if it sees a comparison.
    "v_select": """\
static inline vf v_select(vf which, vf a, vf b) {
  vi chosen = (vi)which != 0;
  return (vf)(((vi)a & chosen) | ((vi)b & ~chosen));
}""",
    # The conversion uses 32 bits, which compilers do in one instruction; larger floats are already
    # integers.
    "v_trunc": """\
/* each lane without its fraction; the sign stays */
static inline vf v_trunc(vf a) {
  vi size = (vi)a & 0x7fffffff, small = (vf)size < 8388608.0f;
  vf whole = __builtin_convertvector(__builtin_convertvector(a, vi), vf);
  return v_select((vf)small, (vf)((vi)whole | ((vi)a & ~0x7fffffff)), a);
}""",
    "v_floor": """\
static inline vf v_floor(vf a) {
  vf whole = v_trunc(a);
  return whole - (vf)((vi)((vf){0} + 1.0f) & (whole > a));
}""",
    "v_ceil": """\
static inline vf v_ceil(vf a) {
  vf up = v_trunc(a) + (vf)((vi)((vf){0} + 1.0f) & (v_trunc(a) < a));
  return (vf)((vi)up | ((vi)a & ~0x7fffffff));
}""",
    # The value just below one half is added, so that 0.49999997 is not rounded up.
    "v_round": """\
/* the nearest whole number of each lane; halves away from zero */
static inline vf v_round(vf a) {
  vf half = (vf)(((vi)a & ~0x7fffffff) | 0x3effffff);
  return v_trunc(a + half);
}""",
    "v_rint": """\
static inline vf v_rint(vf a) {
  for (int i = 0; i < LANES; i++) a[i] = __builtin_rintf(a[i]);
  return a;
}""",
    "v_running": "",
    "v_running_most": "",
    "v_running_least": "",
    "v_before": "",
    "v_ends": "static inline vf v_ends(vf a) { return __builtin_shuffle(a, (vi){0} + LAST); }",
    "v_across": """\
/* the vector that begins at lane `first` of a and continues in b */
static inline vf v_across(vf a, vf b, const int first) {
  return __builtin_shuffle(a, b, PLACES + first);
}""",
    # The bits of 32-bit integers in the lanes; sums that are too large wrap around.
    "v_bits": "static inline vf v_bits(unsigned a) { return (vf)((vi){0} + (int)a); }",
    "v_bits_plus": """\
static inline vf v_bits_plus(vf a, vf b) {
  typedef unsigned vu __attribute__((vector_size(SIZE)));
  return (vf)((vu)a + (vu)b);
}""",
    "v_bits_minus": """\
static inline vf v_bits_minus(vf a, vf b) {
  typedef unsigned vu __attribute__((vector_size(SIZE)));
  return (vf)((vu)a - (vu)b);
}""",
    "v_bits_running": "",
    "v_bits_first": "static inline unsigned v_bits_first(vf a) { return ((vi)a)[0]; }",
    **{
        f"v_{kind}{name}": ""
        for kind in WIDE
        for name in ("", "_plus", "_running", "_ends", "_first")
    },
    "v_first": "static inline float v_first(vf a) { return a[0]; }",
    "v_less": "static inline vf v_less(vf a, vf b) { return (vf)(a < b); }",
    "v_at_most": "static inline vf v_at_most(vf a, vf b) { return (vf)(a <= b); }",
    "v_equal": "static inline vf v_equal(vf a, vf b) { return (vf)(a == b); }",
    "v_differ": "static inline vf v_differ(vf a, vf b) { return (vf)(a != b); }",
    "v_and": "static inline vf v_and(vf a, vf b) { return (vf)((vi)a & (vi)b); }",
    "v_or": "static inline vf v_or(vf a, vf b) { return (vf)((vi)a | (vi)b); }",
    "v_not": "static inline vf v_not(vf a) { return (vf)~(vi)a; }",
    **MATHEMATICAL_TEXTS,
}


_CONVERSIONS = tuple(f"{begin}{kind}" for begin in (LOADS, STORES) for kind in CONVERTED)


def vector_types(lanes: int) -> str:
    """The vector types. They can have any address and alias arrays of floats."""
    how = f"__attribute__((vector_size({4 * lanes}), aligned(4), may_alias))"
    return f"typedef float vf {how};\ntypedef int vi {how};"


def definitions(used: Iterable[str], lanes: int) -> list[str]:
    """C texts of the used functions, in an order in which each is defined before it is used."""
    wanted: set[str] = set()

    def want(name: str) -> None:
        wanted.add(name)
        for other in _NEEDS.get(name, ()):
            want(other)

    for name in used:
        want(name)
    order = [*_TEXTS, *SCALAR_OF_REDUCTION, *_CONVERSIONS]
    return [_text(name, lanes) for name in order if name in wanted]


def is_vector_function(name: str) -> bool:
    """Whether a name is one of these functions."""
    return name in _TEXTS or name in SCALAR_OF_REDUCTION or name in _CONVERSIONS


def _text(name: str, lanes: int) -> str:
    if name in SCALAR_OF_REDUCTION:
        return _reduction(name, lanes)
    if name in _CONVERSIONS:
        return _conversion(name, lanes)
    if name in ("v_max", "v_min"):
        return _extreme(name, lanes)
    if name == "v_running":
        return _running(name, "a + {}", lanes)
    if name in ("v_running_most", "v_running_least"):
        return _running_extreme(name, "v_max" if name.endswith("most") else "v_min", lanes)
    if name == "v_bits_running":
        return _running(name, "v_bits_plus(a, {})", lanes)
    if name == "v_before":
        head = "/* the lane before each; 0 before the first */\nstatic inline vf v_before(vf a) {"
        return "\n".join([head, f"  return {_later(1, lanes)};", "}"])
    if name.split("_")[1] in WIDE:
        return _wide(name, lanes)
    places = ", ".join(map(str, range(lanes)))
    text = _TEXTS[name].replace("SIZE", str(4 * lanes)).replace("PLACES", f"(vi){{{places}}}")
    return text.replace("LANES", str(lanes)).replace("LAST", str(lanes - 1))


def _extreme(name: str, lanes: int) -> str:
    """The larger or the smaller of two values in each lane; the second if one is not a number.

    GCC makes two or three instructions of the portable form. The built-in functions of x86 are one.
    """
    word, operator = ("max", ">") if name == "v_max" else ("min", "<")
    body = f"  vi first = a {operator} b;\n  return (vf)(((vi)a & first) | ((vi)b & ~first));"
    calls = {
        16: ("__AVX512F__", f"__builtin_ia32_{word}ps512_mask(a, b, a, -1, 4)"),
        8: ("__AVX__", f"__builtin_ia32_{word}ps256(a, b)"),
        4: ("__SSE__", f"__builtin_ia32_{word}ps(a, b)"),
    }
    if lanes in calls:
        feature, call = calls[lanes]
        test = f"#if defined {feature} && __has_builtin({call[: call.index('(')]})"
        body = f"{test}\n  return {call};\n#else\n{body}\n#endif"
    return f"static inline vf {name}(vf a, vf b) {{\n{body}\n}}"


def _conversion(name: str, lanes: int) -> str:
    """Conversion between integers in memory and a vector of floats, through 32-bit integers."""
    kind = name.removeprefix(LOADS).removeprefix(STORES)
    size = BYTES.get(kind, 4)
    how = f"__attribute__((vector_size({lanes * size}), aligned({size}), may_alias))"
    inner = f"  typedef {kind} vk {how};"
    if name.startswith(LOADS):
        head = f"static inline vf {name}(const {kind} *p) {{"
        whole = "__builtin_convertvector(*(const vk *)p, vi)"
        if size == 1:  # GCC finds the instruction for four times the size only in such a list
            inner += "\n  vk k = *(const vk *)p;"
            whole = f"(vi){{{', '.join(f'k[{lane}]' for lane in range(lanes))}}}"
        return f"{head}\n{inner}\n  return __builtin_convertvector({whole}, vf);\n}}"
    whole = "__builtin_convertvector(__builtin_convertvector(a, vi), vk)"
    head = f"static inline void {name}({kind} *p, vf a) {{"
    return f"{head}\n{inner}\n  *(vk *)p = {whole};\n}}"


def _wide(name: str, lanes: int) -> str:
    """A function on lanes of 64 bits, which vectors of floats hold the bits of."""
    _, word, *rest = name.split("_")
    what = "".join(rest)
    kind, count = WIDE[word], lanes // 2
    types = f"  typedef {kind} vk __attribute__((vector_size({4 * lanes})));"
    if what == "":
        return f"static inline vf {name}({kind} a) {{\n{types}\n  return (vf)(a - (vk){{0}});\n}}"
    if what == "plus":
        return f"static inline vf {name}(vf a, vf b) {{\n{types}\n  return (vf)((vk)a + (vk)b);\n}}"
    if what == "first":
        return f"static inline {kind} {name}(vf a) {{\n{types}\n  return ((vk)a)[0];\n}}"
    places = f"  typedef long long vl __attribute__((vector_size({4 * lanes})));"
    lines = [f"static inline vf {name}(vf given) {{", types, places, "  vk a = (vk)given;"]
    distance = 1
    while what == "running" and distance < count:
        order = ", ".join(str(n - distance if n >= distance else count) for n in range(count))
        lines.append(f"  a = a + __builtin_shuffle(a, (vk){{0}}, (vl){{{order}}});")
        distance *= 2
    if what == "ends":
        lines.append(f"  a = __builtin_shuffle(a, (vl){{0}} + {count - 1});")
    return "\n".join([*lines, "  return (vf)a;", "}"])


def _running(name: str, added: str, lanes: int) -> str:
    """Each lane gets the sum of itself and all earlier lanes, by adding the lanes 1, 2, 4, ...
    before it."""
    lines = []
    distance = 1
    while distance < lanes:
        lines.append(f"  a = {added.format(_later(distance, lanes))};")
        distance *= 2
    head = f"/* sums of the lanes up to each */\nstatic inline vf {name}(vf a) {{"
    return "\n".join([head, *lines, "  return a;", "}"])


def _running_extreme(name: str, function: str, lanes: int) -> str:
    """Each lane gets the largest or smallest of itself and all earlier lanes."""
    lines = [f"static inline vf {name}(vf a) {{"]
    distance = 1
    while distance < lanes:
        order = ", ".join(
            str(lane - distance if lane >= distance else lane) for lane in range(lanes)
        )
        lines.append(f"  a = {function}(a, __builtin_shuffle(a, (vi){{{order}}}));")
        distance *= 2
    return "\n".join([*lines, "  return a;", "}"])


def _later(distance: int, lanes: int) -> str:
    """The vector `a` moved by a number of lanes, with zeros in the first lanes."""
    order = [lane - distance if lane >= distance else lanes for lane in range(lanes)]
    return f"__builtin_shuffle(a, (vf){{0}}, (vi){{{', '.join(map(str, order))}}})"


def _reduction(name: str, lanes: int) -> str:
    """Halves of the vector are combined until one lane contains the result."""
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
