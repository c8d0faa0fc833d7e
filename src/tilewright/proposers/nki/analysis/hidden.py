"""Finds which columns of tiles a mask hides, instruction by instruction.

For masked elements, `affine_select` writes a number far below all scores. It stays far below them,
its exponential is zero, and zero adds nothing to a sum. Therefore, instructions that only compute
such columns can be removed. As in any softmax, it is assumed that a masked score is far below the
others; the correctness check decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.hidden_columns import (
    FAR,
    KEPT,
    Action,
    Run,
    Span,
    TrackedArray,
    cut,
    mask_start,
)
from tilewright.proposers.nki.analysis.hidden_rules import RULES
from tilewright.proposers.nki.ir import WRITTEN, Alloc, Body, Loop, Op, Region, Tensor
from tilewright.proposers.nki.linear import Linear

MOST_RUNS = 20_000
"""Maximum number of instructions that are followed, in each iteration of a loop separately."""


@dataclass
class Follower:
    """Runs a body with information about hidden columns instead of numbers. Variables outside it
    may have any values."""

    tensors: Mapping[str, Tensor]
    trips: Mapping[str, int]
    _values: dict[str, list[float | None]] = field(default_factory=dict)
    """For each tile created here, the values of hidden columns."""
    _filled: dict[str, set[tuple[int, int, int]]] = field(default_factory=dict)
    """For each tile created here, the written columns (with first partition and count)."""
    _missing: dict[str, set[tuple[int, int, int]]] = field(default_factory=dict)
    """Columns for which products were omitted before any other was added."""
    _places: dict[str, Linear] = field(default_factory=dict)
    _runs: int = 0

    def followed(self, body: Body) -> tuple[TrackedArray, ...]:
        """The action for each statement; `NotApplicableError` if it is not known."""
        found: list[TrackedArray] = []
        for statement in body:
            if isinstance(statement, Loop):
                found.append(self._loop(statement))
            elif isinstance(statement, Alloc):
                tensor = statement.tensor
                self._values[tensor.name] = [None] * (tensor.row if tensor.on_chip else 0)
                self._filled[tensor.name], self._missing[tensor.name] = set(), set()
                found.append(KEPT)
            else:
                found.append(self._op(statement))
        return tuple(found)

    def _loop(self, loop: Loop) -> tuple[Run, ...]:
        found: list[Run] = []
        for number in range(loop.trips):
            self._places[loop.variable] = Linear(number)
            inner = self.followed(loop.body)
            if found and found[-1].inner == inner:
                found[-1] = replace(found[-1], stop=number + 1)
            else:
                found.append(Run(number, number + 1, inner))
        del self._places[loop.variable]
        return tuple(found)

    def _op(self, op: Op) -> Action:
        self._runs += 1
        if self._runs > MOST_RUNS:
            raise NotApplicableError("the loop has too many iterations to be analysed")
        spans: dict[str, Span] = {}
        for key, region in op.regions:
            span = None if key in WRITTEN else self._span(region)
            if span is not None:
                spans[key] = span
        if op.name == "affine_select":
            action = self._select(op, spans)
        else:
            action = self._by_rule(op, spans) if spans else KEPT
        if not action.drops:
            self._written(op, action)
        return action

    def _by_rule(self, op: Op, spans: Mapping[str, Span]) -> Action:
        rule = RULES.get(op.name)
        action = None if rule is None else rule(self, op, spans)
        if action is None:
            raise NotApplicableError(f"{op.name} uses elements that the mask hides")
        return action

    def columns(self, region: Region) -> list[list[int]]:
        """Columns of a tile created here, for each index of the region's first axis (after the
        partition) that has more than one index."""
        row = self.tensors[region.tensor].row
        offset = region.offset.replaced(self._places)
        if offset.terms:
            raise NotApplicableError(f"the part of {region.tensor} depends on outer loops")
        free = [dim for dim in region.dims[1:] if dim[1] > 1] or [(1, 1)]
        start = offset.constant % row
        inner = [sum(steps) for steps in product(*(range(0, s * n, s) if s else [0] * n
                                                   for s, n in free[1:]))]  # fmt: skip
        step, count = free[0]
        return [[start + step * index + more for more in inner] for index in range(count)]

    def _partitions(self, region: Region) -> tuple[int, int]:
        offset = region.offset.replaced(self._places)
        return offset.constant // self.tensors[region.tensor].row, region.dims[0][1]

    def _span(self, region: Region) -> Span | None:
        """The hidden columns of a region; None if it has none."""
        values = self._values.get(region.tensor)
        missing = self._missing.get(region.tensor)
        if not values or (not missing and not any(v is not None for v in values)):
            return None
        blocks = self.columns(region)
        if missing and missing & self._keys(region):
            raise NotApplicableError(f"all products of a part of {region.tensor} are hidden")
        found = [{values[column] for column in block} for block in blocks]
        hidden = [None not in one for one in found]
        known = {v for one in found for v in one if v is not None}
        if not known:
            return None
        live = [number for number, one in enumerate(hidden) if not one]
        low, high = (live[0], live[-1] + 1) if live else (0, 0)
        mixed = any(len(one) > 1 for one, all_hidden in zip(found, hidden, strict=True)
                    if not all_hidden)  # fmt: skip
        if len(known) > 1 or mixed or any(hidden[low:high]):
            raise NotApplicableError(f"hidden columns lie between others of {region.tensor}")
        return Span(len(blocks), low, high, known.pop())

    def hide(self, region: Region, value: float, live: tuple[int, int] = (0, 0)) -> None:
        """Record that a region has a value at all indices except `live`."""
        values, tensor = self._values.get(region.tensor), self.tensors[region.tensor]
        if not values or self._partitions(region) != (0, tensor.shape[0]):
            raise NotApplicableError(
                f"{region.tensor} lives longer than the loop, or only some partitions are hidden"
            )
        for index, block in enumerate(self.columns(region)):
            if not live[0] <= index < live[1]:
                for column in block:
                    values[column] = value

    def skip_product(self, region: Region) -> None:
        """Record that nothing is added to a sum of products."""
        if region.tensor not in self._filled:
            raise NotApplicableError(f"{region.tensor} lives longer than the loop")
        self._missing[region.tensor] |= self._keys(region) - self._filled[region.tensor]

    def _keys(self, region: Region) -> set[tuple[int, int, int]]:
        first, count = self._partitions(region)
        return {(c, first, count) for block in self.columns(region) for c in block}

    def _written(self, op: Op, action: Action) -> None:
        """Record what an instruction writes, after it was cut."""
        for key, region in op.regions:
            if key not in WRITTEN or not self._values.get(region.tensor):
                continue
            part = cut(region, action.live) if action.live and key in action.keys else region
            keys, values = self._keys(part), self._values[region.tensor]
            self._filled[region.tensor] |= keys
            self._missing[region.tensor] -= keys
            for column, _, _ in keys:
                values[column] = None

    def _select(self, op: Op, spans: Mapping[str, Span]) -> Action:
        """A selection of the elements that are not masked. Later columns may be hidden in every
        partition."""
        value, target = op.get("on_false_value"), op.region("dst")
        pattern, how = op.get("pattern"), str(op.get("cmp_op"))
        if spans:
            raise NotApplicableError("the masked elements were already masked before")
        if not isinstance(value, (int, float)) or not (value == 0 or value <= FAR):
            return KEPT
        if how not in _CERTAIN or not isinstance(pattern, tuple) or len(pattern) != 1:
            return KEPT
        assert isinstance(pattern[0], tuple)
        step, count = pattern[0]
        multiplier = op.get("channel_multiplier") or 0
        if not isinstance(step, int) or not isinstance(multiplier, int):
            return KEPT
        low, high = mask_start(op).replaced(self._places).bounds(self.trips)
        reach = multiplier * (target.dims[0][1] - 1)
        low, high = low + min(0, reach), high + max(0, reach)
        certain = [_CERTAIN[how](low + step * c, high + step * c) for c in range(int(str(count)))]
        never, always = ([c for c, pair in enumerate(certain) if pair[which]] for which in (0, 1))
        live, masked = (_range(set(range(len(certain))) - set(without))
                        for without in (never, [*never, *always]))  # fmt: skip
        counts = [[n for _, n in op.region(key).dims[1:] if n > 1] for key in _SELECTED]
        if live is None or masked is None or counts != [[len(certain)]] * 2:
            return KEPT
        if never:
            self.hide(target, float(value), live)
        return Action(live, _SELECTED, masked)


_SELECTED = ("dst", "on_true_tile")


def _range(indices: set[int]) -> tuple[int, int] | None:
    """Indices as the first and one past the last; None if there are gaps."""
    if not indices:
        return 0, 0
    low, high = min(indices), max(indices) + 1
    return (low, high) if high - low == len(indices) else None


_CERTAIN: Mapping[str, Callable[[int, int], tuple[bool, bool]]] = {
    "nl.greater_equal": lambda low, high: (high < 0, low >= 0),
    "nl.greater": lambda low, high: (high <= 0, low > 0),
    "nl.less_equal": lambda low, high: (low > 0, high <= 0),
    "nl.less": lambda low, high: (low >= 0, high < 0),
    "nl.equal": lambda low, high: (high < 0 or low > 0, low == high == 0),
}
"""Whether no value between two bounds passes a comparison with zero, and whether every one does."""
