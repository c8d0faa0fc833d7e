"""Functions of C that kernels may call, and vector functions that rewritten kernels contain."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.loops.ir import Type

_OF_ONE = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos",
    "tan", "asin", "acos", "atan", "erf", "erfc", "sqrt", "cbrt", "fabs", "floor", "ceil", "round",
    "trunc", "rint", "nearbyint",
)  # fmt: skip
_OF_TWO = ("fmax", "fmin", "pow", "fmod", "atan2", "hypot", "copysign")
MATHEMATICAL: Mapping[str, int] = {
    **{name + end: 1 for name in _OF_ONE for end in ("", "f")},
    **{name + end: 2 for name in _OF_TWO for end in ("", "f")},
    "fmaf": 3, "fma": 3,
}  # fmt: skip
"""Functions of math.h that kernels may call, with their numbers of arguments."""

VECTOR_OF: Mapping[str, str] = {
    name + end: f"v_{short}"
    for name, short in (
        ("exp", "exp"), ("tanh", "tanh"), ("erf", "erf"), ("log", "log"), ("sin", "sin"),
        ("cos", "cos"), ("fmax", "max"),
        ("fmin", "min"), ("sqrt", "sqrt"), ("fabs", "abs"), ("floor", "floor"), ("ceil", "ceil"),
        ("trunc", "trunc"), ("round", "round"), ("rint", "rint"), ("nearbyint", "rint"),
    )
    for end in ("f", "")
}  # fmt: skip
"""For each function on floats, the corresponding function on vectors."""

OF_ANY_ANGLE: Mapping[str, str] = {"v_sin": "v_sin_of_any", "v_cos": "v_cos_of_any"}
"""For each vector function with a branch for large angles, the function without a branch."""

COMPARED: Mapping[str, tuple[str, bool]] = {
    "<": ("v_less", False), ">": ("v_less", True), "<=": ("v_at_most", False),
    ">=": ("v_at_most", True), "==": ("v_equal", False), "!=": ("v_differ", False),
}  # fmt: skip
"""The vector comparison for an operator, and whether its operands are exchanged."""

MASKS = frozenset({"v_less", "v_at_most", "v_equal", "v_differ", "v_and", "v_or", "v_not"})
"""Functions whose lanes have all bits set if a condition holds, and no bits set otherwise."""

SCALAR_OF_REDUCTION: Mapping[str, str] = {"v_sum": "+", "v_most": "fmaxf", "v_least": "fminf"}
"""Functions that combine the lanes of a vector into a float."""

ROUNDING = ("floor", "ceil", "round", "trunc", "rint", "nearbyint")
"""Functions whose results are integers."""

TO_WHOLE: Mapping[str, str] = {
    f"{size}{name}{end}": f"{name}{end}"
    for name in ("rint", "round")
    for size in ("l", "ll")
    for end in ("", "f")
}
"""For each function that converts its result to a 64-bit integer, the function that only rounds."""

MAGNITUDES: Mapping[str, Type] = {"abs": "int", "labs": "int64_t", "llabs": "int64_t"}
"""For each function of stdlib.h that computes the magnitude of an integer, the integer's type."""

CONVERTED = ("int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "int")
"""Integer types as which vectors are loaded and stored."""

LOADS, STORES = "v_from_", "v_to_"
"""The beginnings of the names of these functions, before the type."""

WIDE: Mapping[str, Type] = {"wide": "uint64_t", "double": "double"}
"""The type of lanes of 64 bits, of which a vector has half as many, by words in function names."""


def type_of_call(name: str) -> Type:
    """The return type of a function of math.h or of a vector function."""
    if name == "v_bits_first":
        return "uint32_t"
    if name.endswith("_first") and name.split("_")[1] in WIDE:
        return WIDE[name.split("_")[1]]
    if name in (*SCALAR_OF_REDUCTION, "v_first") or name[:-1] in MATHEMATICAL:
        return "float"
    return "double" if name in MATHEMATICAL else "vector"
