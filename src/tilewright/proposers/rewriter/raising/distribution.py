"""Separates the commands and the core's code of a loop into loops of their own.

    for i { store(T); fence(); core(T, O[i]); }
    ->  for i { store(T_all[i]); fence(); }  for i { T = T_all[i]; core(T, O[i]); }

An array of the kernel's own that commands fill in every iteration gets a part for each iteration.
The commands of all iterations can then be raised together, and the core waits for them once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from tilewright.proposers.rewriter.analysis.core_functions import used_by
from tilewright.proposers.rewriter.analysis.ranges import trip_count
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.expr import quotient, var
from tilewright.proposers.rewriter.ir import (
    Array,
    Assign,
    Body,
    Command,
    Dram,
    Kernel,
    Loop,
    Opaque,
    Stmt,
    arrays_of,
    commands,
    core_names,
    has_opaque,
    rebuilt,
    unused_name,
    walk,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import Computation
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.stretches import alone
from tilewright.proposers.rewriter.raising.translation.parts import SPACING

_BOUND = re.compile(r"\b(?:sizeof|return|goto|break|continue)\b")
"""Words of code that means something else in another loop or with a pointer to an array."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """An array that gets a part for each iteration of some loops, and the array of all parts."""

    array: Array
    loops: tuple[Loop, ...]
    whole: Array

    def of(self, place: Dram) -> Dram:
        """A place in the array of all parts."""
        index = (quotient(var(s.var) - s.lower, s.step) for s in self.loops)
        return Dram(self.whole.name, (*index, *place.index))

    def pointer(self) -> Opaque:
        """A declaration with which the core's code uses the part of an iteration."""
        at = "".join(f"[({s.var} - {s.lower.const}) / {s.step}]" for s in self.loops)
        rows = "".join(f"[{size}]" for size in self.array.shape[1:])
        name = f"(*const {self.array.name}){rows}" if rows else f"*const {self.array.name}"
        text = f"{self.array.element} {name} = {self.whole.name}{at};"
        names = frozenset((self.whole.name, *(s.var for s in self.loops)))
        return Opaque(text, names, "it declares a part of an array")


def distributed(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel in which no loop contains both commands and code of the core.

    `NotRaised` if the iterations may pass values to one another in another way than within commands
    or within the core's code.
    """
    body: list[Stmt] = []
    arrays = list(kernel.arrays)
    for stmt in kernel.body:
        if not (isinstance(stmt, Loop) and _is_mixed(stmt)):
            body.append(stmt)
            continue
        found = _parts(replace(kernel, arrays=tuple(arrays)), stmt)
        _require_separate(kernel, stmt, found)
        together = _with_parts((stmt,), found)
        loops = _with_parts(_separated(stmt, found), found)
        arrays += [p.whole for p in found]
        _require_same(replace(kernel, arrays=tuple(arrays)), together, loops, found, machine)
        body += loops
    return replace(kernel, arrays=tuple(arrays), body=tuple(body))


def _is_mixed(stmt: Stmt) -> bool:
    return has_opaque((stmt,)) and next(commands((stmt,)), None) is not None


def _uses(stmt: Stmt) -> Set[str]:
    """The arrays that a command accesses, or the names that a statement of the core uses."""
    return arrays_of(stmt) if isinstance(stmt, Command) else core_names(stmt)


def _parts(kernel: Kernel, outer: Loop) -> list[_Part]:
    """The arrays of the kernel's own with which the commands and the core of a loop pass values."""
    found: list[_Part] = []
    for array in (a for a in kernel.arrays if a.local):
        uses = [
            (s, tuple(x for x in (outer, *above) if isinstance(x, Loop) and _is_mixed(x)))
            for s, above in walk_paths(outer.body)
            if array.name in _uses(s)
        ]
        if len({isinstance(s, Command) for s, _ in uses}) < 2:
            continue
        common = [same[0] for same in zip(*(loops for _, loops in uses), strict=False)
                  if len(set(same)) == 1]  # fmt: skip
        counts = [trip_count(s, {}) if s.lower.is_const else None for s in common]
        if not all(counts):
            raise NotRaised("a loop of commands and code of the core has no constant length")
        name = unused_name(kernel, f"{array.name}_all")
        shape = (*(c for c in counts if c), *array.shape)
        whole = replace(array, name=name, shape=shape, static=True, outside=False)
        found.append(_Part(array, tuple(common), whole))
    return found


def _require_separate(kernel: Kernel, outer: Loop, parts: Sequence[_Part]) -> None:
    """Raise `NotRaised` if the core's code of a loop may use what its commands move in another
    iteration, or if code outside of the loop may use an array that gets parts."""
    inside = set(walk((outer,)))
    core = [s for s in walk((outer,)) if isinstance(s, Opaque | Assign)]
    if any(isinstance(s, Opaque) and _BOUND.search(s.text) for s in core):
        raise NotRaised("code of the core in a loop of commands is bound to its place")
    named = frozenset(n for s in core for n in core_names(s))
    around = kernel.before + kernel.after
    moved = {name for c in commands((outer,)) for name in arrays_of(c)}
    called = used_by(named, around)
    own = {p.array.name for p in parts}
    if called & (moved | own):
        raise NotRaised("a function of the core uses an array that commands move")
    for name in named & moved - own:
        if not re.search(rf"\bconst\s+\w+\s*\(?\*?\s*{name}\b", kernel.signature):
            raise NotRaised(f"the core may change the array {name}, which commands move")
    outside = {n for s in walk(kernel.body) if s not in inside for n in core_names(s)}
    others = tuple(s for s in kernel.body if s is not outer)
    moved_there = {name for c in commands(others) for name in arrays_of(c)}
    if (outside | used_by(outside, around) | moved_there) & own:
        raise NotRaised("other code uses an array that commands fill in every iteration of a loop")
    known = {a.name for a in kernel.arrays} | set(re.findall(r"\w+", around))
    if named & outside - known:
        raise NotRaised("code of the core in a loop of commands uses a variable of other code")


def _with_parts(body: Body, parts: Sequence[_Part]) -> Body:
    """Commands that move the part of each iteration."""
    by_name = {p.array.name: p for p in parts}

    def moved(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, Command):
            return None
        operands = tuple(
            by_name[o.array].of(o) if isinstance(o, Dram) and o.array in by_name else o
            for o in stmt.operands
        )
        return (replace(stmt, operands=operands),)

    return rebuilt(body, moved)


def _separated(loop: Loop, parts: Sequence[_Part]) -> Body:
    """Loops over the same iterations, each with commands or with the core's code only."""
    pieces: list[Stmt] = []
    for stmt in loop.body:
        if not _is_mixed(stmt):
            pieces.append(stmt)
        elif isinstance(stmt, Loop):
            pieces += _separated(stmt, parts)
        else:
            raise NotRaised("commands and code of the core depend on the same condition")
    groups = [(core, tuple(g)) for core, g in groupby(pieces, lambda s: has_opaque((s,)))]
    if sum(core for core, _ in groups) > 1:
        raise NotRaised("a loop of commands contains code of the core at several places")
    found: list[Stmt] = []
    for core, group in groups:
        here = [p for p in parts if core and p.loops[-1] is loop]
        names = {n for s in walk(group) for n in core_names(s)}
        pointers = (p.pointer() for p in here if p.array.name in names)
        found.append(replace(loop, body=(*pointers, *group)))
    return tuple(found)


def _require_same(
    kernel: Kernel, before: Body, after: Body, parts: Sequence[_Part], machine: Machine
) -> None:
    """Raise `NotRaised` unless the commands alone store the same in both orders, fill all parts,
    and fill them before the core's code."""
    shared = {p.whole.name for p in parts} | {n for s in walk(kernel.body) for n in core_names(s)}
    first = _of_commands(kernel, before, shared, machine)
    last = _of_commands(kernel, after, shared, machine)
    if _stored(first) != _stored(last):
        raise NotRaised("commands of a loop depend on the order of its iterations")
    arrays = [a for a in kernel.arrays if not a.local or a.name in shared]
    for part in parts:
        number, size = arrays.index(part.whole) + 1, SIZES[part.whole.element]
        filled = {
            at + r * one.stride + column * size
            for one in last.stored if (at := one.address) // SPACING == number
            for r in range(one.count) for column in range(one.how.columns)
        }  # fmt: skip
        if len(filled) != math.prod(part.whole.shape):
            raise NotRaised(f"not every iteration of a loop fills the array {part.array.name}")
        groups = [s for s in after if _mentions(s, part)]
        if has_opaque((groups[0],)) or any(_stores(s, part, machine) for s in groups[1:]):
            raise NotRaised(f"the core uses {part.array.name} before commands have filled it")


def _mentions(stmt: Stmt, part: _Part) -> bool:
    names = {part.array.name, part.whole.name}
    return any(_uses(s) & names for s in walk((stmt,)))


def _stores(stmt: Stmt, part: _Part, machine: Machine) -> bool:
    return any(
        machine.unit(c.name) == "store" and part.whole.name in arrays_of(c)
        for c in commands((stmt,))
    )


def _of_commands(kernel: Kernel, loops: Body, shared: Set[str], machine: Machine) -> Computation:
    """What the commands of some loops store, with the settings before the kernel's first loop."""
    settings = takewhile(lambda s: not isinstance(s, Loop), kernel.body)
    body = rebuilt((*settings, *loops), lambda s: () if isinstance(s, Opaque | Assign) else None)
    return computation(executed(emit(alone(body, kernel.arrays, shared)), machine), machine)


def _stored(found: Computation) -> dict[tuple[int, int, int], object]:
    """What is stored, by place."""
    return {
        (one.address, one.stride, one.count): (
            one.how, [(a, s, b, found.kinds[k]) for a, s, b, k in one.products], one.rows,
        )
        for one in found.stored
    }  # fmt: skip
