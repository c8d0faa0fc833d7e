"""Sequences that combine all helpful rewrites: packing, sums in variables, vectors, tiles.

Random steps rarely find these combinations, and a single step may make a kernel slower. A matrix
product is fast only if a tile of it is accumulated in vector registers. This requires a packed
operand, an order of loops, vectors, and two loops that are unrolled and jammed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.compiled_time import compiled_time
from tilewright.proposers.loops.ir import (
    Assign,
    Declare,
    Element,
    For,
    Kernel,
    Load,
    Var,
    around,
    expressions,
    loops,
    statements,
)
from tilewright.proposers.loops.planning.side_by_side import are_read_often, in_lanes, jammed_lanes
from tilewright.proposers.loops.planning.steps import Step, steps_of
from tilewright.proposers.loops.rewrites.added_numbers import WIDER
from tilewright.proposers.loops.rewrites.argmax import is_search
from tilewright.proposers.loops.rewrites.bytes import sums_bytes
from tilewright.proposers.loops.rewrites.table_copies import tables

MOST_LOOPS = 64
"""A kernel with more loops is not rewritten further, because its code no longer fits into the
first-level cache."""
MOST_UNROLLED = 400
"""The same limit for statements, because compilers take 10 s for some thousand statements."""
_MOST_PACKED = 5
"""Maximum number of inputs that one sequence packs."""
_MOST_KEPT = 8
_MOST_SPLIT = 24
_MOST_TABULATED = 8
_COPIES = (2, 3, 4, 6, 8)
_TABLES = (2, 4)
"""Numbers of copies of tables. Fewer stay in the nearest cache beside the data; more help where
neighbours often add to the same element.
"""
_FLOAT = 4
"""Bytes of a float."""
_ROWS = (1, 4)
"""Numbers of rows of a stencil that are computed at once, of which several use the same vectors.
More rows than one read arrays in memory faster; eight need more registers than there are."""
_LANES = (32, 16)
"""Numbers of iterations that run side by side."""
_LANES_OF_ROWS = 8
"""The same for loops whose bounds depend on data, which often have few iterations."""
_CHAINS = (32, 16, 8, 4)
"""Numbers of copies of such loops, of which the first is used for which a loop has enough
iterations."""
_Copies: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
_COPIES_OF_WHOLE_SUMS: _Copies = ((1, 2), (1, 2, 4, 6, 8))
"""Numbers of copies of the outer loop and of the loop with the sums, which the compiler vectorises
itself. With three or four copies of the outer loop, it would put values of several sums into one
vector."""

Steps = list[tuple[Step, Kernel]]
"""Steps, each with the kernel that it changes."""
_Way: TypeAlias = tuple[Callable[[Kernel, Steps], Kernel], ...]


class Whole:
    """Creates sequences for vectors of `lanes` floats and `registers` available registers.

    Only `offered` techniques are used.
    """

    def __init__(self, lanes: int, registers: int, offered: frozenset[str]) -> None:
        self._lanes = lanes
        self._registers = registers
        self._offered = offered

    def sequences(self, kernel: Kernel) -> Iterator[tuple[Steps, Kernel]]:
        """Each sequence with the kernel after it, the shortest estimate first; none does nothing.

        Each makes another kernel.
        """
        vectors, tiles = self.everything, self.tiled
        rolled: Steps = []
        kernel = self.rolled(kernel, rolled)
        ways: list[_Way] = [
            (self.prepared, vectors, self.chained),
            *((self.prepared, vectors, partial(self.neighbouring, rows)) for rows in _ROWS),
            (self.prepared, self.kept, vectors, tiles, self.chained),
            (self.prepared, self.packed, self.kept, vectors, tiles),
            (self.prepared, self.packed, vectors),
            (self.prepared, self.packed, self.kept, vectors, self.tiled_high),
        ]
        if any(p.type in WIDER for p in kernel.parameters):
            ways.append((self.prepared, self.kept, self.packed, vectors, tiles))
            ways.append((self.prepared, self.of_bytes, self.rows_of_bytes))
            ways.append((self.prepared, self.of_bytes))
        ways += [(partial(self.separate_tables, copies),) for copies in _TABLES]
        ways += [()] * bool(rolled)
        made: dict[Kernel, Steps] = {}
        begun: dict[_Way, tuple[Steps, Kernel]] = {(): (rolled, kernel)}
        for place, way in enumerate(ways):
            steps, after = self._carried_out(way, begun)
            if steps:
                made.setdefault(after, steps)
            if place == 0 and self._leaves_scalars(after):
                ways += self._ways_in_lanes()
        for after, steps in [*made.items()]:
            more = [*steps]
            made.setdefault(self._repeated("angles", after, more), more)
        found = [(steps, after) for after, steps in made.items()]
        yield from sorted(found, key=lambda one: compiled_time(one[1], _FLOAT * self._lanes))

    def _carried_out(
        self, way: _Way, begun: dict[_Way, tuple[Steps, Kernel]]
    ) -> tuple[Steps, Kernel]:
        """The steps of a way and the kernel after them.

        Ways that begin alike share this part, which is kept in `begun`.
        """
        if way not in begun:
            before, kernel = self._carried_out(way[:-1], begun)
            steps = [*before]
            begun[way] = steps, way[-1](kernel, steps)
        return begun[way]

    def _ways_in_lanes(self) -> list[_Way]:
        """Ways in which iterations run side by side, of which the last one makes tiles."""
        made: list[_Way] = []
        for count in _LANES:
            made.append((self.prepared, self.kept, partial(self.side_by_side, count, True)))
            made.append((self.prepared, partial(self.side_by_side, count, False)))
        made.append((self.prepared, partial(self.outermost_in_lanes, self._lanes)))
        packed = partial(self.side_by_side, _LANES[0], True)
        return [*made, (self.prepared, self.kept, packed, self.tiled_lanes)]

    def rolled(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Converts manually unrolled loops to plain loops, and sums of running sums to sums that do
        not wait for one another. Other rewrites apply to these."""
        return self._repeated("weigh", self._repeated("roll", kernel, steps), steps)

    def prepared(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Splits loops, and then computes what outer loops do not change once."""
        return self.tabulated(self.split(kernel, steps), steps)

    def split(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Splits loops where their conditions change, so that the largest part has no
        conditions."""
        return self._repeated("split", kernel, steps, most_loops=_MOST_SPLIT)

    def tabulated(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Computes what outer loops do not change once, into arrays."""
        return self._repeated("tabulate", kernel, steps, most=_MOST_TABULATED)

    def _repeated(
        self,
        technique: str,
        kernel: Kernel,
        steps: Steps,
        *,
        most: float = math.inf,
        most_loops: float = math.inf,
    ) -> Kernel:
        """Carries out the first step of a technique repeatedly, at most `most` times and while
        the kernel has at most `most_loops` loops."""
        end = len(steps) + most
        while technique in self._offered and len(steps) < end and len(loops(kernel)) <= most_loops:
            found = next(steps_of(kernel, technique, self._lanes), None)
            if found is None:
                break
            steps.append((found[0], kernel))
            kernel = found[1]
        return kernel

    def everything(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Vectorises every loop that can be vectorised, innermost first, and uses reciprocals."""
        for technique in ("vectorise", "reciprocal"):
            while technique in self._offered and len(loops(kernel)) <= MOST_LOOPS:
                found = list(steps_of(kernel, technique, self._lanes))
                if not found:
                    break
                steps.append((found[-1][0], kernel))
                kernel = found[-1][1]
        return kernel

    def neighbouring(self, rows: int, kernel: Kernel, steps: Steps) -> Kernel:
        """Loads each vector of overlapping ones once, and computes up to `rows` rows at once."""
        offered = {"neighbours", *(["jam"] if rows > 1 else [])} <= self._offered
        for number in reversed(range(len(loops(kernel)))) if offered else ():
            path, step = around(kernel, number), Step("neighbours", number)
            most = rows if len(path) > 1 and path[-2].step == 1 else 1
            for copies in (c for c in (*_COPIES[::-1], 1) if c <= most):
                made: Steps = []
                here = kernel
                if copies > 1:
                    place = next(n for n in range(number) if _is_outside(n, kernel, number))
                    here = _jammed(kernel, place, copies, made)
                after = step.applied(here)
                if after is not None:
                    steps += [*made, (step, here)]
                    kernel = after
                    break
        return kernel

    def chained(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Unrolls loops that reduce to doubles or search for a place, with separate variables for
        each copy.

        Compilers put the variables of neighbouring copies into one vector.
        """
        if "accumulators" not in self._offered:
            return kernel
        for number in reversed(range(len(loops(kernel)))):
            if loops(kernel)[number].limits is not None:
                kernel = self._row_in_lanes(kernel, number, steps)
                continue
            if not self._gains_from_copies(kernel, number):
                continue
            for copies in _CHAINS:
                step = Step("accumulators", number, copies)
                after = step.applied(kernel)
                if after is not None and length(after) <= MOST_UNROLLED:
                    steps.append((step, kernel))
                    kernel = after
                    break
        return kernel

    def _row_in_lanes(self, kernel: Kernel, number: int, steps: Steps) -> Kernel:
        """Sums of a loop whose bounds depend on data, computed in lanes; the last lanes may be
        empty."""
        step = Step("lanes", number, _LANES_OF_ROWS)
        after = step.applied(kernel) if "lanes" in self._offered else None
        if after is None:
            return kernel
        steps.append((step, kernel))
        return after

    def side_by_side(self, count: int, pack: bool, kernel: Kernel, steps: Steps) -> Kernel:
        """Runs iterations of one loop of each nest side by side; with `pack`, inputs are packed."""
        pack = pack and "pack" in self._offered
        found = in_lanes(kernel, count, pack=pack) if "lanes" in self._offered else ()
        return _after(found, kernel, steps)

    def outermost_in_lanes(self, count: int, kernel: Kernel, steps: Steps) -> Kernel:
        """Runs iterations of the outermost loop of each nest side by side, as for many small
        matrices, even if neighbouring iterations read distant elements."""
        for loop in [s for s in kernel.body if isinstance(s, For)]:
            number = next((n for n, other in enumerate(loops(kernel)) if other is loop), None)
            step = Step("lanes", number, count) if number is not None else None
            after = step.applied(kernel) if step is not None and "lanes" in self._offered else None
            if step is not None and after is not None:
                steps.append((step, kernel))
                kernel = after
        return kernel

    def tiled_lanes(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Jams copies of the loops around those whose iterations run side by side."""
        return _after(jammed_lanes(kernel) if "jam" in self._offered else (), kernel, steps)

    def _leaves_scalars(self, kernel: Kernel) -> bool:
        """Whether vectors of floats leave loops as they are that could run in lanes."""
        return "lanes" in self._offered and any(
            any(loop.last - loop.first >= self._lanes for loop in around(kernel, number))
            and not any(isinstance(s, For) for s in innermost.body)
            and not any(isinstance(e, Load) for e in expressions(innermost.body))
            for number, innermost in enumerate(loops(kernel))
        )

    def of_bytes(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Sums products of 8-bit numbers as unsigned by signed bytes."""
        for number in reversed(range(len(loops(kernel)))) if "bytes" in self._offered else ():
            step = Step("bytes", number)
            after = step.applied(kernel)
            if after is not None:
                steps.append((step, kernel))
                return after
        return kernel

    def rows_of_bytes(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Computes several rows of sums of bytes at once, which use each loaded vector more often
        and whose totals the compiler combines."""
        for number in reversed(range(len(loops(kernel)))) if "jam" in self._offered else ():
            path = around(kernel, number)
            if len(path) > 1 and sums_bytes(kernel, number):
                outer = path[-min(3, len(path))]
                place = next(n for n, loop in enumerate(loops(kernel)) if loop is outer)
                return _jammed(kernel, place, _COPIES[-1], steps)
        return kernel

    def _gains_from_copies(self, kernel: Kernel, number: int) -> bool:
        if is_search(kernel, number):
            return True
        try:
            found = reductions(loops(kernel)[number], visible_types(kernel, number))
        except NotApplicableError:
            return False
        return any(r.type == "double" for r in found)

    def separate_tables(self, copies: int, kernel: Kernel, steps: Steps) -> Kernel:
        """Unrolls loops that add to tables, such as histograms, with a table for each copy."""
        if "accumulators" not in self._offered:
            return kernel
        for number in reversed(range(len(loops(kernel)))):
            step = Step("accumulators", number, copies)
            has_tables = tables(loops(kernel)[number], kernel, copies)
            after = step.applied(kernel) if has_tables else None
            if after is not None:
                steps.append((step, kernel))
                kernel = after
        return kernel

    def packed(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Packs each input that is the only obstacle to vectorising a loop.

        Also packs inputs that are multiplied as wider integers.
        """
        for _ in range(_MOST_PACKED if "pack" in self._offered else 0):
            for step, after in steps_of(kernel, "pack", self._lanes):
                moved = len(loops(after)) - len(loops(kernel))
                there = Step("vectorise", step.loop + moved, self._lanes)
                wider = after.scratch[-1].type in WIDER.values() and not any(
                    isinstance(s, For) for s in loops(kernel)[step.loop].body
                )
                here = replace(there, loop=step.loop)
                needed = there.applied(after) is not None and here.applied(kernel) is None
                reads = math.prod(o.trips for o in around(kernel, step.loop))
                if (wider and are_read_often(reads, kernel, after)) or (
                    needed and not self._is_vectorised_around(step.loop, kernel)
                ):
                    steps.append((step, kernel))
                    kernel = after
                    break
            else:
                break
        return kernel

    def _is_vectorised_around(self, number: int, kernel: Kernel) -> bool:
        """Whether the loop directly around another can be vectorised instead."""
        outer = [n for n in range(number) if _is_outside(n, kernel, number)]
        return any(Step("vectorise", n, self._lanes).applied(kernel) is not None for n in outer)

    def kept(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Keeps sums in variables while their loops run, and exchanges loops if that makes it
        possible."""
        exchangeable = "exchange" in self._offered
        for _ in range(_MOST_KEPT if "keep" in self._offered else 0):
            found = next(steps_of(kernel, "keep", self._lanes), None)
            if found is not None:
                steps.append((found[0], kernel))
                kernel = found[1]
                continue
            exchanges = steps_of(kernel, "exchange", self._lanes) if exchangeable else ()
            for step, after in exchanges:
                if any(steps_of(after, "keep", self._lanes)):
                    steps.append((step, kernel))
                    kernel = after
                    break
            else:
                break
        return kernel

    def tiled(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Creates a tile of sums in registers for each vectorised loop that contains a reduction
        loop."""
        return self._in_tiles(kernel, steps, high=False)

    def tiled_high(self, kernel: Kernel, steps: Steps) -> Kernel:
        """Creates tiles as `tiled` does, but with as many rows as possible, so that less data is
        read from beyond the nearest cache.

        Each loaded vector is used for every row of the tile.
        """
        return self._in_tiles(kernel, steps, high=True)

    def _in_tiles(self, kernel: Kernel, steps: Steps, *, high: bool) -> Kernel:
        if "jam" not in self._offered:
            return kernel
        number = len(loops(kernel))
        rows: dict[int, int] = {}
        while number:
            number -= 1
            path = around(kernel, number)
            outside = path[-2] if len(path) > 1 else None
            if self._sums_vectors(path[-1]):
                copies: _Copies = (1, *_COPIES), (1, *_COPIES)
            elif _sums_wider(path[-1], kernel):
                copies = _COPIES_OF_WHOLE_SUMS
            else:
                continue
            tall, wide = self._tile(outside, path[-1], copies, high=high)
            kernel = _jammed(kernel, number, wide, steps)
            if outside is not None:
                place = next(n for n in range(number) if _is_outside(n, kernel, number))
                rows[place] = min(tall, rows.get(place, tall))
        for place in sorted(rows, reverse=True):
            kernel = _jammed(kernel, place, rows[place], steps)
        return kernel

    def _sums_vectors(self, loop: For) -> bool:
        declared = {s.name for s in loop.body if isinstance(s, Declare) and s.type == "vector"}
        inner = [s for s in loop.body if isinstance(s, For)]
        summed = {
            s.target.name
            for s in statements(tuple(inner))
            if isinstance(s, Assign) and isinstance(s.target, Var)
        }
        return bool(loop.step == self._lanes and declared & summed)

    def _tile(
        self, outside: For | None, loop: For, copies: _Copies, *, high: bool
    ) -> tuple[int, int]:
        """Chooses the numbers of copies of the outer loop and of this loop so that the sums fill
        the registers.

        Numbers that divide the iterations are preferred, then those that use each value most often,
        or the largest number for the outer loop if the tile is to be `high`.
        """
        found = [
            (tall, wide)
            for tall in (copies[0] if outside is not None else (1,))
            for wide in copies[1]
            if tall * wide + wide + 1 <= self._registers
            and wide <= loop.trips
            and (outside is None or tall <= outside.trips)
        ]

        def worth(tile: tuple[int, int]) -> tuple[float, ...]:
            tall, wide = tile
            ragged = bool(loop.trips % wide) + bool(outside is not None and outside.trips % tall)
            used = tall * wide / (tall + wide)
            return (wide > 1, -ragged, tall, wide) if high else (-ragged, used, tall)

        return max(found, key=worth)


def _after(found: Iterable[tuple[Step, Kernel, Kernel]], kernel: Kernel, steps: Steps) -> Kernel:
    """The kernel after steps, each given with the kernels before and after it."""
    for step, before, after in found:
        steps.append((step, before))
        kernel = after
    return kernel


def _sums_wider(loop: For, kernel: Kernel) -> bool:
    """Whether the only inner loop of a loop sums integers of the type of packed wider ones."""
    arrays = (*kernel.parameters, *kernel.scratch)
    wider = {array.name for array in arrays if array.type in WIDER.values()}
    inner = [s for s in loop.body if isinstance(s, For)]
    read = {e.array for e in expressions(tuple(inner)) if isinstance(e, Element)}
    sums = [s.target for s in statements(tuple(inner)) if isinstance(s, Assign)]
    return bool(read) and read <= wider and all(isinstance(target, Var) for target in sums)


def _is_outside(outer: int, kernel: Kernel, number: int) -> bool:
    """Whether a loop is the one directly around another."""
    path = around(kernel, number)
    return len(path) > 1 and path[-2] is loops(kernel)[outer]


def _jammed(kernel: Kernel, number: int, copies: int, steps: Steps) -> Kernel:
    """The kernel after a jam with this number of copies, or with fewer if the kernel would become
    too large."""
    for fewer in sorted((c for c in _COPIES if c <= copies), reverse=True):
        step = Step("jam", number, fewer)
        after = step.applied(kernel)
        if after is not None and length(after) <= MOST_UNROLLED:
            steps.append((step, kernel))
            return after
    return kernel


def length(kernel: Kernel) -> int:
    """Number of statements, including loops."""
    return sum(1 for _ in statements(kernel.body))
