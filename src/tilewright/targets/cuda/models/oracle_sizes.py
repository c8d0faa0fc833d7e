"""Chooses smaller values for the constants of a problem, with which a CPU can check its kernels.

It is part of the sandboxed program that `oracle.py` starts, and imports nothing of tilewright.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
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
"""Whether repeats or all other constants become smaller, which are at most so large, and down to
which value."""
_UNITS = (128, 64, 32, 16)
"""Usual extents of tiles, by whose multiples a constant becomes smaller."""

Constants = Mapping[str, int]


def reduced(
    problem: Callable[[Constants], Any],
    described: Callable[[Constants], dict[str, Any]],
    constants: Constants,
    most_operations: int,
    most_bytes: int,
) -> tuple[dict[str, int], dict[str, Any]]:
    """Constants with which the model is small enough, and its arguments with them.

    Constants that only repeat independent work, such as the size of a batch, become smaller first:
    a kernel's loops then run more often. `problem` returns the `Oracle` of
    given constants.
    """

    def small(found: Mapping[str, Any]) -> bool:
        return found["operations"] <= most_operations and _bytes(found) <= most_bytes

    first = described({})
    if small(first):
        return {}, first
    choice = _Choice(constants, described, small)
    changed, found = choice.made(first, frozenset())
    if not small(found):
        return changed, found
    sizes = {**constants, **changed}
    repeats = frozenset(name for name in sizes if _repeats(problem, sizes, name))
    return choice.made(first, repeats) if repeats else (changed, found)


class _Choice:
    """Makes constants smaller, step by step."""

    def __init__(
        self,
        constants: Constants,
        described: Callable[[Constants], dict[str, Any]],
        small: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self._constants, self._described, self._small = constants, described, small

    def made(
        self, found: dict[str, Any], repeats: frozenset[str]
    ) -> tuple[dict[str, int], dict[str, Any]]:
        """The changed constants, and the description with them. `found` describes the problem with
        its own constants.

        The smallest repeat, or the largest other constant, is halved. A constant that must keep its
        value is skipped.
        """
        changed: dict[str, int] = {}
        fixed: set[str] = set()
        for of_repeats, most, least in _STEPS:
            while not self._small(found):
                sizes = {**self._constants, **changed}
                kind = [n for n in sizes if n not in fixed and (n in repeats) == of_repeats]
                names = [n for n in kind if 2 * least <= sizes[n] <= most]
                if not names:
                    break
                name = (min if of_repeats else max)(names, key=sizes.__getitem__)
                for smaller in dict.fromkeys((_halved(sizes[name]), sizes[name] // 2)):
                    try:
                        found = self._described({**changed, name: smaller})
                    except Exception:
                        continue
                    changed[name] = smaller
                    break
                else:
                    fixed.add(name)
        return changed, found


def _halved(size: int) -> int:
    """About half of a size, with the same remainder modulo a usual extent of a tile."""
    unit = next((unit for unit in _UNITS if size >= 2 * unit), 1)
    return size // 2 if size % unit == 0 else size // unit // 2 * unit + size % unit


def _repeats(problem: Callable[[Constants], Any], sizes: Constants, name: str) -> bool:
    """Whether half of a constant gives a part of the same outputs, from a part of the same inputs
    and with the same weights.

    The constant then only says how often the same work is done. With the constants in `sizes`, the
    model is small enough to be computed.
    """
    if sizes[name] < 2:
        return False
    try:
        whole, part = problem(sizes), problem({**sizes, name: sizes[name] // 2})
        weights, inputs = whole.arrays(0, "state"), whole.arrays(0, "inputs")
        if [w.shape for w in weights] != [w.shape for w in part.arrays(0, "state")]:
            return False
        fewer, wanted = part.arrays(0, "inputs"), whole.outputs([*inputs, *weights])
        for last in (False, True):  # in a running sum, only the first part is independent
            taken = [_part(*pair, last) for pair in zip(inputs, fewer, strict=True)]
            for one, other in zip(wanted, part.outputs([*taken, *weights]), strict=True):
                if one.shape == other.shape:
                    return False
                if not torch.allclose(_part(one, other, last), other, 1e-9, 1e-12):
                    return False
        return True
    except Exception:  # the file is the user's own code, and may need the constant as it is
        return False


def _part(whole: Any, like: Any, last: bool) -> Any:
    """The first or last elements along each axis, as many as another array has."""
    for axis, extent in enumerate(like.shape):
        whole = whole.narrow(axis, (whole.shape[axis] - extent) * last, extent)
    return whole


def _bytes(found: Mapping[str, Any]) -> int:
    arrays = [a for key in ("inputs", "state", "outputs") for a in found[key] if "shape" in a]
    return sum(8 * math.prod(a["shape"]) for a in arrays)
