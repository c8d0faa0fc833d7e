"""Converts straight-line code to loops: commands that repeat with evenly changing operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis.ranges import at_value
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Dram,
    Flag,
    Guard,
    Kernel,
    Local,
    Loop,
    Opaque,
    Operand,
    Stmt,
    commands,
    walk,
)

LONGEST = 12
"""Maximum number of commands in a pattern that is searched for."""

Shape: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    """Commands that are never repeated, and the number of operands of the others that may grow."""

    alone: Set[str]
    growing: Mapping[str, int] = field(default_factory=dict)

    def same(self, before: Body, now: Body) -> bool:
        """Whether the operands that must not grow are the same."""
        return all(
            a.operands[self.growing.get(a.name, len(a.operands)) :]
            == b.operands[self.growing.get(b.name, len(b.operands)) :]
            for a, b in zip(commands(before), commands(now), strict=False)
        )


def roll(
    kernel: Kernel,
    body: Body,
    alone: Set[str] = frozenset(),
    growing: Mapping[str, int] | None = None,
) -> Body:
    """Replace every sequence of commands that repeats with constant increments by a loop, also
    inside loops.

    Before: `load(&A[0][0], SPAD(0)); load(&A[0][4], SPAD(4)); load(&A[0][8], SPAD(8));`
    After:  `for (b = 0; b < 12; b += 4) load(&A[0][b], SPAD(b));`

    Commands named in `alone` are unchanged. For a command in `growing`, this number of operands may
    grow, and the rest, which is its setting, must be the same in every repetition. The first
    repetition may lack the flag with which later ones accumulate. The result issues the same
    commands in the same order.
    """
    taken = {s.var for s in walk(kernel.body) if isinstance(s, Loop)}
    taken |= {a.name for a in kernel.arrays} | set(kernel.names.values())
    taken |= {n for s in walk(kernel.body) if isinstance(s, Opaque) for n in s.names}
    return _rolled(body, taken, _Kept(alone, growing or {}), 0)


def _rolled(body: Body, taken: set[str], kept: _Kept, depth: int) -> Body:
    result: list[Stmt] = []
    position = 0
    while position < len(body):
        length, times = _best_run(body, position, kept)
        if times > 1:
            result.append(
                _loop(body[position : position + length * times], length, taken, kept, depth)
            )
            position += length * times
            continue
        result.append(_inside(body[position], taken, kept, depth))
        position += 1
    return tuple(result)


def _inside(stmt: Stmt, taken: set[str], kept: _Kept, depth: int) -> Stmt:
    if isinstance(stmt, Loop):
        return replace(stmt, body=_rolled(stmt.body, taken, kept, depth))
    if isinstance(stmt, Guard):
        yes, no = (_rolled(b, taken, kept, depth) for b in (stmt.body, stmt.orelse))
        return replace(stmt, body=yes, orelse=no)
    return stmt


def _best_run(body: Body, start: int, kept: _Kept) -> tuple[int, int]:
    """Length and number of repetitions of the pattern at a position that makes the code
    shortest."""
    best, saved = (1, 1), 0
    for length in range(1, min(LONGEST, (len(body) - start) // 2) + 1):
        times = _repetitions(body, start, length, kept)
        if length * (times - 1) > saved:
            best, saved = (length, times), length * (times - 1)
    return best


def _repetitions(body: Body, start: int, length: int, kept: _Kept) -> int:
    """How often the statements at a position repeat with constant increments."""
    pattern = body[start : start + length]
    if not all(isinstance(s, Command | Loop) for s in pattern):
        return 1
    if kept.alone and any(c.name in kept.alone for c in commands(pattern)):
        return 1
    increments: list[tuple[int, ...]] = []
    times = 1
    while start + (times + 1) * length <= len(body):
        now = body[start + times * length : start + (times + 1) * length]
        before = body[start + (times - 1) * length : start + times * length]
        steps = _all_increments(before, now, first=times == 1)
        if steps is None or not kept.same(before, now) or (times > 1 and steps != increments):
            break
        increments = steps
        times += 1
    return times


def alike(before: Body, now: Body) -> bool:
    """Whether both are the same commands in the same loops, whatever their operands. Others cannot
    repeat each other, and this is found in much less time than by comparing operands."""
    return len(before) == len(now) and all(map(_same_form, before, now))


def _same_form(before: Stmt, now: Stmt) -> bool:
    if isinstance(before, Command):
        return isinstance(now, Command) and before.name == now.name
    return isinstance(before, Loop) and isinstance(now, Loop) and alike(before.body, now.body)


def _all_increments(before: Body, now: Body, *, first: bool) -> list[tuple[int, ...]] | None:
    """The growth of all statements; None if one of them is other code."""
    if not alike(before, now):
        return None
    found = []
    for old, new in zip(before, now, strict=True):
        step = _increments(old, new, first=first)
        if step is None:
            return None
        found.append(step)
    return found


def _increments(before: Stmt, now: Stmt, *, first: bool) -> tuple[int, ...] | None:
    """The growth of each number of a command, or of those in a loop; None for other code."""
    if isinstance(before, Loop) and isinstance(now, Loop):
        return _increments_within(before, now, first=first)
    if not isinstance(before, Command) or not isinstance(now, Command):
        return None
    if before.name != now.name or len(before.operands) != len(now.operands):
        return None
    old, new = ([_shape(o) for o in c.operands] for c in (before, now))
    if [s for s, _, _ in old] != [s for s, _, _ in new]:
        return None
    flags = [(a, b) for (_, a, _), (_, b, _) in zip(old, new, strict=True)]
    if any(a != b and not (first and a < b) for a, b in flags):
        return None
    return tuple(
        b - a
        for (_, _, numbers), (_, _, later) in zip(old, new, strict=True)
        for a, b in zip(numbers, later, strict=True)
    )


def _increments_within(before: Loop, now: Loop, *, first: bool) -> tuple[int, ...] | None:
    """The growth of all numbers inside two loops with the same bounds."""
    bounds = [(s.lower, s.upper, s.step, len(s.body)) for s in (before, now)]
    if bounds[0] != bounds[1]:
        return None
    later = at_value(now.body, now.var, var(before.var)) if now.var != before.var else now.body
    found = _all_increments(before.body, later, first=first)
    return None if found is None else tuple(n for step in found for n in step)


def _shape(operand: Operand) -> tuple[Shape, frozenset[Flag], tuple[int, ...]]:
    """The parts that must be equal in all repetitions, the flags, and the numbers that may grow."""
    match operand:
        case Expr(const, terms):
            return ("number", terms), frozenset(), (const,)
        case Local(space, row, flags):
            return ("local", space, row.terms), frozenset(flags), (row.const,)
        case Dram(array, index):
            return (
                ("array", array, tuple(e.terms for e in index)),
                frozenset(),
                tuple(e.const for e in index),
            )
    return ("text", operand), frozenset(), ()


def _loop(run: Body, length: int, taken: set[str], kept: _Kept, depth: int) -> Loop:
    name = _fresh(taken, depth)
    first, second = run[:length], run[length : 2 * length]
    steps = [_increments(a, b, first=True) or () for a, b in zip(first, second, strict=True)]
    unit = math.gcd(*(s for step in steps for s in step)) or 1
    body = tuple(
        _general(a, b, list(step), name, unit)
        for a, b, step in zip(first, second, steps, strict=True)
    )
    times = len(run) // length
    notes = run[0].notes
    body = (replace(body[0], notes=()), *body[1:])
    return Loop(
        name,
        Expr(0),
        Expr(times * unit),
        unit,
        _rolled(body, {*taken, name}, kept, depth + 1),
        notes,
    )


def _general(first: Stmt, second: Stmt, left: list[int], name: str, unit: int) -> Stmt:
    """The command or loop for all repetitions, whose numbers grow with the loop's variable.

    `left` contains the increments of the numbers that have not been read yet. The increments of
    this statement are removed from `left`.
    """
    if isinstance(first, Loop) and isinstance(second, Loop):
        later = at_value(second.body, second.var, var(first.var))
        pairs = zip(first.body, later, strict=True)
        return replace(first, body=tuple(_general(a, b, left, name, unit) for a, b in pairs))
    assert isinstance(first, Command)
    assert isinstance(second, Command)
    operands = []
    for operand, following in zip(first.operands, second.operands, strict=True):
        _, flags, numbers = _shape(following)
        growth = [var(name) * (left.pop(0) // unit) for _ in numbers]
        match operand:
            case Expr():
                operand = operand + growth[0]
            case Local(space, row, own):
                later_only = tuple(
                    Flag(f.name, (Compare(">", var(name), Expr(0)),))
                    for f in sorted(flags - set(own), key=lambda f: f.name)
                )
                operand = Local(space, row + growth[0], (*own, *later_only))
            case Dram(array, index):
                operand = Dram(array, tuple(e + g for e, g in zip(index, growth, strict=True)))
        operands.append(operand)
    return replace(first, operands=tuple(operands), trailing="")


def _fresh(taken: set[str], depth: int) -> str:
    """An unused name. Nested loops get different names."""
    stem, number = "bcefgh"[depth % 6], 1
    name = stem
    while name in taken:
        number += 1
        name = f"{stem}{number}"
    return name
