"""Packs local blocks into words, so that the core computes an operand in one instruction.

For `preload(SPAD(4 * k + 16), ..)`, the core computes a row, converts it to 32 bits, and inserts
the sizes in the upper bits, at every use. With a packed word, the next block needs only one
addition. Each kind of block (memory and sizes) has a base. A base is packed once, or if its sizes
vary, as those of partial tiles do, in the outermost block of statements in which its sizes are
known. The common part of the operands in a block of statements is added to it once. Only constants
remain to be added at each use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.proposers.rewriter.expr import Atom, Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Flag,
    Local,
    Loop,
    Operand,
    Text,
    Words,
    children,
    commands,
)

REACH = 2048
"""Constants below this number are added with one instruction."""
ADDRESS, SHARED, SIZES = 1.5, 2.0, 4.0
"""Numbers of instructions for an array address, for the common part of a block's words, and for a
base whose sizes vary.
"""


@dataclass(frozen=True, slots=True)
class Base:
    """A kind of block: its memory (or the name for no block) and its size."""

    memory: str
    absent: bool
    columns: Expr
    rows: Expr

    @property
    def varying(self) -> frozenset[str]:
        """The variables on which the sizes depend."""
        return self.columns.names() | self.rows.names()


@dataclass(frozen=True, slots=True)
class Share:
    """The common part of several words: everything except a constant number of rows."""

    base: Base
    terms: tuple[tuple[Atom, int], ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def is_base(self) -> bool:
        """Whether nothing is added to the base."""
        return not (self.terms or self.flags)


@dataclass(frozen=True, slots=True)
class Packed:
    """One word: the part that it shares with others, and the additional rows."""

    share: Share
    rows: int


def packed(command: Command, words: Words) -> tuple[Operand | Packed, ...] | None:
    """The operands of a command in its form with packed blocks; None if it must be written
    without."""
    form = words.forms.get(command.name)
    if form is None:
        return None
    result: list[Operand | Packed] = []
    for positions in form.operands:
        if len(positions) == 1:
            result.append(command.operands[positions[0]])
            continue
        local, *extents = (command.operands[at] for at in positions)
        columns, rows = (e if isinstance(e, Expr) else Expr() for e in extents)
        if any(e.is_const and e.const <= 0 for e in (columns, rows)):
            return None
        if isinstance(local, Local):
            base = Base(local.space, False, columns, rows)
            result.append(Packed(Share(base, local.row.terms, local.flags), local.row.const))
        elif isinstance(local, Text):
            result.append(Packed(Share(Base(local.text, True, columns, rows)), 0))
        else:
            return None
    return tuple(result)


def used(body: Body, words: Words) -> Iterator[tuple[Command, Packed]]:
    """The words of the commands directly in a block of statements."""
    for stmt in body:
        if isinstance(stmt, Command):
            for operand in packed(stmt, words) or ():
                if isinstance(operand, Packed):
                    yield stmt, operand


def windows(body: Body, words: Words) -> Mapping[Packed, Packed]:
    """The words from which all words of a block can be reached by adding small constants.

    Each common part has one at its smallest row, and further ones where the distance becomes too
    large.
    """
    rows: dict[Share, set[int]] = {}
    for _, word in used(body, words):
        rows.setdefault(word.share, set()).add(word.rows)
    found: dict[Packed, Packed] = {}
    for share, places in rows.items():
        start = 0 if share.is_base else min(places)
        for at in sorted(places):
            if at - start >= REACH:
                start = at
            found[Packed(share, at)] = Packed(share, start)
    return found


def bases(body: Body, words: Words) -> list[Base]:
    """The kinds of blocks in a kernel, in the order of their first use."""
    found = {
        operand.share.base: None
        for command in commands(body)
        for operand in packed(command, words) or ()
        if isinstance(operand, Packed)
    }
    return list(found)


def core_time(
    body: Body, words: Words, own: frozenset[str] = frozenset()
) -> Mapping[Command, float]:
    """Number of instructions of the core for each command that takes packed blocks, without its
    loops.

    These are the command itself, each word that no earlier command in its block used, and
    addresses. `own` is the variable of the loop around the body: bases whose sizes depend on it
    are packed in each iteration.
    """
    result: dict[Command, float] = {}
    starts, seen, sized = windows(body, words), set[Packed](), set[Base]()
    for stmt in body:
        inside = frozenset((stmt.var,)) if isinstance(stmt, Loop) else own
        result |= core_time(children(stmt), words, inside)
        operands = packed(stmt, words) if isinstance(stmt, Command) else None
        if not isinstance(stmt, Command) or operands is None:
            continue
        result[stmt] = 1.0
        for operand in operands:
            if not isinstance(operand, Packed):
                result[stmt] += ADDRESS
                continue
            start, base = starts[operand], operand.share.base
            given = start in seen or (start.share.is_base and not start.rows)
            result[stmt] += 0.0 if given else SHARED
            result[stmt] += operand not in seen and operand != start
            if base not in sized and base.varying & own:
                result[stmt] += SIZES
            seen |= {operand, start}
            sized.add(base)
    return result
