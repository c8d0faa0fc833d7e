"""Finds the schedule of a kernel as loops, from the commands that it issues.

The kernel's C may decide in any way which commands to issue (flags, remembered addresses, queues of
slots, tests of any kind), as long as the decision does not depend on data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Bounds, Expr, bounds, quotient, remainder, var
from tilewright.proposers.rewriter.ir import (
    Array,
    Body,
    Command,
    Dram,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    Text,
    walk,
)
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised, Run, executed
from tilewright.proposers.rewriter.raising.operands import setting, strides
from tilewright.proposers.rewriter.raising.own_arrays import declared, names_in, numbered
from tilewright.proposers.rewriter.raising.repeats import Repeat, Shape, Single, Term, loops_of
from tilewright.proposers.rewriter.raising.translation.parts import SPACING
from tilewright.proposers.rewriter.rewrites.unpeel_first import joined

MOST_COMMANDS = 1_000_000
"""Maximum number of commands of a run in which loops are searched for."""
MOST_STATEMENTS = 480
"""Maximum number of commands and loops of a schedule; with more, the commands are not regarded as
loops."""
_Command: TypeAlias = tuple[Shape, tuple[int, ...]]
"""The shape of a command, and its numbers."""
_NAMES = ("i", "j", "k", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z")


@lru_cache(maxsize=16)
def scheduled(source: str, machine: Machine) -> Kernel:
    """A kernel's body as loops of exactly the commands that it issues, in the same order.

    `NotRaised` gives the reason if the commands do not form loops.
    """
    kernel, run = lift(source, machine), executed(source, machine)
    if len(run.events) > MOST_COMMANDS:
        raise NotRaised(f"the kernel issues more than {MOST_COMMANDS:,} commands")
    arrays = numbered(kernel) | declared(run.own, names_in(kernel), {})
    terms = loops_of(_products(_singles(run, machine), run, machine))
    if len(terms) > MOST_STATEMENTS:
        raise NotRaised(
            f"the commands form more than {MOST_STATEMENTS} different loops and single commands"
        )
    body = _Writer(machine, run, arrays).body(terms)
    kernel = replace(kernel, arrays=tuple(arrays.values()), body=body, names={})
    found = simplify(joined(simplify(kernel), machine))
    if sum(1 for _ in walk(found.body)) > MOST_STATEMENTS:
        raise NotRaised(
            f"the commands form more than {MOST_STATEMENTS} different loops and single commands"
        )
    return found


def _singles(run: Run, machine: Machine) -> Iterator[_Command]:
    """The commands with addresses as numbers. Memory, flags and other operands are their shape."""
    kinds = [_kinds(name, machine) for name in run.commands]
    high = _high(machine)
    absent = _absent(machine)
    shapes: dict[tuple[object, ...], tuple[object, ...]] = {}
    for event in run.events:
        fixed: list[object] = [event[0]]
        numbers: list[int] = []
        for kind, value in zip(kinds[event[0]], event[2:], strict=False):
            if kind == "dram" and value:
                array, offset = divmod(value, SPACING)
                fixed.append(array)
                numbers.append(offset)
            elif kind == "local" and value & 0xFFFFFFFF != absent:
                fixed.append(value & high)
                numbers.append(value & 0xFFFFFFFF & ~high)
            else:
                fixed.append(value)
        shape = tuple(fixed)
        yield shapes.setdefault(shape, shape), tuple(numbers)


def _products(singles: Iterator[_Command], run: Run, machine: Machine) -> Iterator[Single]:
    """The elements, with each command that latches an operand joined to the next command."""
    latches = {n for n, c in enumerate(run.commands) if machine.attribute(c, "latches")}
    shapes: dict[tuple[object, ...], tuple[object, ...]] = {}
    for own, numbers in singles:
        following = next(singles, None) if own[0] in latches else None
        if following is None:
            yield Single(own, numbers)
            continue
        shape = (own, following[0])
        yield Single(shapes.setdefault(shape, shape), numbers + following[1])


def _kinds(name: str, machine: Machine) -> list[str]:
    """The operands that are addresses in an array or in a local memory."""
    roles = machine.effects[name].operands
    return [r.partition("_")[0] if r.endswith(("_read", "_write")) else "" for r in roles]


def _high(machine: Machine) -> int:
    """The bits of a local address that do not belong to the row."""
    names = [*machine.spaces, *(f for f, m in machine.flags.items() if m != "absent")]
    bits = 0
    for name in names:
        bits |= machine.constants[name]
    return bits


def _absent(machine: Machine) -> int:
    flag = machine.flag("absent")
    return machine.constants[flag] if flag is not None else -1


@dataclass(frozen=True, slots=True)
class _Writer:
    machine: Machine
    run: Run
    arrays: Mapping[int, Array]

    def body(self, terms: Sequence[Term]) -> Body:
        taken = {a.name for a in self.arrays.values()} | {
            *self.machine.effects,
            *self.machine.constants,
        }
        names = [n for n in _NAMES if n not in taken]
        return self._body(terms, [[Expr(n) for n in t.numbers] for t in terms], names, {})

    def _body(
        self,
        terms: Sequence[Term],
        numbers: Sequence[list[Expr]],
        names: Sequence[str],
        env: Mapping[str, Bounds],
    ) -> Body:
        found: list[Stmt] = []
        for term, own in zip(terms, numbers, strict=True):
            if isinstance(term, Repeat):
                if not names:
                    raise NotRaised("the loops of the kernel nest too deeply")
                name, *rest = names
                inside = {**env, name: (0, term.count - 1)}
                grown = [e + var(name) * s for e, s in zip(own, term.steps, strict=True)]
                parts = []
                for part in term.part:
                    parts.append(grown[: len(part.numbers)])
                    grown = grown[len(part.numbers) :]
                body = self._body(term.part, parts, rest, inside)
                found.append(Loop(name, Expr(), Expr(term.count), 1, body))
                continue
            given = iter(own)
            for shape in term.shape if isinstance(term.shape[0], tuple) else (term.shape,):
                assert isinstance(shape, tuple)
                found.append(self._command(shape, given, env))
        return tuple(found)

    def _command(
        self, shape: Sequence[object], given: Iterator[Expr], env: Mapping[str, Bounds]
    ) -> Command:
        name = self.run.commands[int(str(shape[0]))]
        if self.machine.unit(name) == "config":
            return setting(self.machine, name, shape[1:])
        operands: list[Operand] = []
        for kind, fixed in zip(_kinds(name, self.machine), shape[1:], strict=False):
            value = int(str(fixed))
            if kind == "dram" and value:
                operands.append(self._place(value, next(given), env))
            elif kind == "local":
                is_absent = value & 0xFFFFFFFF == _absent(self.machine)
                operands.append(self._local(value, Expr() if is_absent else next(given)))
            else:
                operands.append(Expr(value))
        return Command(name, tuple(operands))

    def _local(self, high: int, row: Expr) -> Operand:
        found = self.machine.local(row + (high & 0xFFFFFFFF))
        if not isinstance(found, Local | Text):
            raise NotRaised("a command uses a row of local memory that does not exist")
        return found

    def _place(self, number: int, offset: Expr, env: Mapping[str, Bounds]) -> Dram:
        """An element of an argument, given by its offset in bytes."""
        if number not in self.arrays:
            raise NotRaised("a command accesses an address outside the kernel's arrays")
        array = self.arrays[number]
        size = SIZES.get(array.element, 0)
        if not size or any(v % size for v in (offset.const, *(c for _, c in offset.terms))):
            raise NotRaised(f"an address lies between two elements of {array.name}")
        elements = _divided(offset, size)
        if bounds(elements, env)[0] < 0:
            raise NotRaised(f"a command accesses memory before the start of {array.name}")
        index = [_quotient(elements, step, env) for step in strides(array)]
        around = [_remainder(e, n) for e, n in zip(index[1:], array.shape[1:], strict=True)]
        return Dram(array.name, (*index[:1], *around))


def _quotient(of: Expr, by: int, env: Mapping[str, Bounds]) -> Expr:
    """`of / by`, without terms that are too small to matter."""
    for least in sorted({abs(c) for _, c in of.terms}):
        large = tuple(t for t in of.terms if abs(t[1]) > least)
        small = tuple(t for t in of.terms if abs(t[1]) <= least)
        unit = math.gcd(by, *(c for _, c in large))
        low, high = bounds(Expr(of.const % unit, small), env)
        if low >= 0 and high < unit:
            of = Expr(of.const - of.const % unit, large)
    unit = math.gcd(by, of.const, *(c for _, c in of.terms))
    return quotient(_divided(of, unit), by // unit)


def _remainder(of: Expr, by: int) -> Expr:
    """`of % by`, without common multiples of both."""
    unit = math.gcd(by, of.const, *(c for _, c in of.terms))
    return remainder(_divided(of, unit), by // unit) * unit


def _divided(of: Expr, by: int) -> Expr:
    """A sum of multiples of a number, divided by this number."""
    return Expr(of.const // by, tuple((a, c // by) for a, c in of.terms))
