"""Chooses smaller values for the constants of a problem, with which a CPU can check its kernels.

It is part of the sandboxed program that `oracle.py` starts, and imports nothing of tilewright.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")
_STEPS = (
    (True, math.inf, 256),
    (False, math.inf, 256),
    (True, 16, 2),
    (True, math.inf, 32),
    (False, math.inf, 64),
    (True, math.inf, 2),
    (False, math.inf, 16),
)
"""In each step, repeats (True) or the other constants (False) become smaller: those that are at
most as large as the first number, down to the second."""
_LAST_STEP = (False, math.inf, 4)
"""A further step if there are still too many operations. The sizes of arrays alone are no reason
for it, because loops over such small sizes rarely repeat."""
_UNITS = (128, 64, 32, 16)
"""Usual extents of tiles, by whose multiples a constant becomes smaller."""

Constants = Mapping[str, int]


def reduced(
    full: dict[str, Any],
    problem: Callable[[Constants], Any],
    described: Callable[[Constants], dict[str, Any]],
    constants: Constants,
    most_operations: int,
    most_bytes: int,
) -> tuple[dict[str, int], dict[str, Any]]:
    """The changed constants with which the model is small enough, and its description with them.

    Constants that only repeat independent work, such as the size of a batch, become smaller first:
    a kernel's loops then run more often. `full` is the description with the problem's own
    constants, and `problem` returns the `Oracle` of given constants.
    """

    def small(found: Mapping[str, Any]) -> bool:
        return found["operations"] <= most_operations and _bytes(found) <= most_bytes

    def chosen(repeats: frozenset[str]) -> tuple[dict[str, int], dict[str, Any]]:
        """The smallest repeat, or the largest other constant, is halved, step by step. A constant
        that must keep its value is skipped."""
        found = full
        changed: dict[str, int] = {}
        fixed: set[str] = set()
        for step in (*_STEPS, _LAST_STEP):
            of_repeats, most, least = step
            while not small(found):
                if step == _LAST_STEP and found["operations"] <= most_operations:
                    break
                sizes = {**constants, **changed}
                kind = [n for n in sizes if n not in fixed and (n in repeats) == of_repeats]
                names = [n for n in kind if 2 * least <= sizes[n] <= most]
                if not names:
                    break
                name = (min if of_repeats else max)(names, key=sizes.__getitem__)
                for smaller in dict.fromkeys((_halved(sizes[name]), sizes[name] // 2)):
                    try:
                        found = described({**changed, name: smaller})
                    except Exception:
                        continue
                    changed[name] = smaller
                    break
                else:
                    fixed.add(name)
        return changed, found

    changed, found = chosen(frozenset())
    if not changed or not small(found):
        return changed, found
    repeats = _repeats(problem, {**constants, **changed})
    return chosen(repeats) if repeats else (changed, found)


def _halved(size: int) -> int:
    """About half of a size. If it is no multiple of a usual extent of a tile, the remainder stays
    the same."""
    unit = next((unit for unit in _UNITS if size >= 2 * unit), 1)
    return size // 2 if size % unit == 0 else size // unit // 2 * unit + size % unit


def _repeats(problem: Callable[[Constants], Any], sizes: Constants) -> frozenset[str]:
    """The constants that only say how often the same work is done.

    With the constants in `sizes`, the model is small enough to be computed.
    """
    try:
        whole = problem(sizes)
        weights, inputs = whole.arrays(0, "state"), whole.arrays(0, "inputs")
        wanted = whole.outputs([*inputs, *weights])
    except Exception:  # the file is the user's own code
        return frozenset()

    def is_repeat(name: str) -> bool:
        half = {**sizes, name: sizes[name] // 2}
        return sizes[name] > 1 and _is_part(problem, half, weights, inputs, wanted)

    return frozenset(filter(is_repeat, sizes))


def _is_part(
    problem: Callable[[Constants], Any], sizes: Constants, weights: Sequence[Any],
    inputs: Sequence[Any], wanted: Sequence[Any],
) -> bool:  # fmt: skip
    """Whether smaller constants give a part of the `wanted` outputs, from a part of the same inputs
    and with the same weights."""
    try:
        part = problem(sizes)
        if [w.shape for w in weights] != [w.shape for w in part.arrays(0, "state")]:
            return False
        fewer = part.arrays(0, "inputs")
        for last in (False, True):  # in a running sum, only the first part is independent
            taken = [_part(*pair, last) for pair in zip(inputs, fewer, strict=True)]
            for one, other in zip(wanted, part.outputs([*taken, *weights]), strict=True):
                if one.shape == other.shape:
                    return False
                if not torch.allclose(_part(one, other, last), other, 1e-9, 1e-12):
                    return False
        return True
    except Exception:  # the user's own code may need the constant as it is
        return False


def _part(whole: Any, like: Any, last: bool) -> Any:
    """The first or last elements along each axis, as many as another array has."""
    for axis, extent in enumerate(like.shape):
        whole = whole.narrow(axis, (whole.shape[axis] - extent) * last, extent)
    return whole


def _bytes(found: Mapping[str, Any]) -> int:
    arrays = [a for key in ("inputs", "state", "outputs") for a in found[key] if "shape" in a]
    return sum(8 * math.prod(a["shape"]) for a in arrays)
