"""The elements of arrays that moves and the core access."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.settings import own_setting
from tilewright.proposers.rewriter.analysis.touched_rows import constant
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Assign,
    Command,
    Dram,
    Kernel,
    Loop,
    Stmt,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine


@dataclass(frozen=True, slots=True)
class Section:
    """Elements of an array: an affine start, and the offsets from it in rows and columns."""

    array: str
    start: Expr
    offsets: frozenset[int]
    shape: tuple[int, int]

    def same(self, other: Section) -> bool:
        """Whether two sections have the same elements in the same layout."""
        return (self.array, self.start, self.offsets, self.shape) == (
            other.array,
            other.start,
            other.offsets,
            other.shape,
        )

    def meets(self, other: Section) -> bool:
        """Whether the sections may have a common element."""
        if self.array != other.array:
            return False
        apart = other.start - self.start
        if not apart.is_const:
            return True
        return any(o + apart.const in self.offsets for o in other.offsets)

    def at(self, var: str, value: Expr) -> Section:
        """The section in another iteration."""
        return replace(self, start=self.start.substituted({var: value}))


def is_core_loop(stmt: Stmt) -> bool:
    """Whether the loop computes elements one after the other on the core."""
    return isinstance(stmt, Loop) and all(isinstance(s, Assign) for s in walk(stmt.body))


def section_of(move: Command, kernel: Kernel, machine: Machine) -> Section | None:
    """The elements that a load or store of a resolved kernel accesses."""
    dram = next((o for o in move.operands if isinstance(o, Dram)), None)
    if dram is None or machine.unit(move.name) not in ("load", "store"):
        return None
    array = next(a for a in kernel.arrays if a.name == dram.array)
    given = own_setting(move, machine)
    size = SIZES.get(array.element)
    stride = constant(given.get("dram_stride", Expr(0)), "the stride of a move")
    if size is None or stride % size:
        raise NotApplicable(f"the layout of {dram.array} is not known")
    at = {r: i for i, r in enumerate(machine.effects[move.name].operands)}
    rows, columns = (constant(move.operands[at[a]], f"the {a}") for a in ("rows", "columns"))
    offsets = _offsets(rows, columns, stride // size)
    return Section(dram.array, _flat(dram, array.shape), offsets, (rows, columns))


@lru_cache(maxsize=256)
def _offsets(rows: int, columns: int, distance: int) -> frozenset[int]:
    return frozenset(r * distance + c for r in range(rows) for c in range(columns))


def core_section(dram: Dram, loop: Loop, kernel: Kernel) -> Section:
    """The elements that a loop of the core accesses through one of its operands."""
    array = next(a for a in kernel.arrays if a.name == dram.array)
    count, step = loop.upper - loop.lower, loop.step
    start = _flat(dram, array.shape)
    if not count.is_const or not loop.lower.is_const or start.coefficient(loop.var) != 1:
        raise NotApplicable(f"the core does not access consecutive elements of {dram.array}")
    first = start.substituted({loop.var: loop.lower})
    offsets = frozenset(range(0, count.const, step))
    return Section(dram.array, first, offsets, (1, len(offsets)))


def _flat(dram: Dram, shape: tuple[int, ...]) -> Expr:
    """The position of the element in its array."""
    result = Expr()
    for position, size in enumerate(shape):
        index = dram.index[position] if position < len(dram.index) else Expr()
        result = result * size + index
    return result


def core_parts(stmt: Stmt, kernel: Kernel) -> tuple[list[Section], list[Section]]:
    """The elements that a loop of the core reads and writes."""
    assert isinstance(stmt, Loop)
    reads: list[Section] = []
    writes: list[Section] = []
    for assign in walk(stmt.body):
        if not isinstance(assign, Assign):
            raise NotApplicable("the core executes more than one loop of assignments")
        writes.append(core_section(assign.target, stmt, kernel))
        reads.extend(core_section(dram, stmt, kernel) for _, dram in assign.terms)
    return reads, writes
