"""Analyses flattened inputs, `X[row * 64 + column]`: the part that is read, and the columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.independence import extremes
from tilewright.proposers.loops.ir import (
    Element,
    Expr,
    For,
    Kernel,
    Parameter,
    Statement,
    Var,
    around,
    expressions,
    loops,
)
from tilewright.proposers.loops.rewrites.vectors import unconditional


def elements_read(array: str, kernel: Kernel, number: int) -> int:
    """The minimum number of elements of a flattened input, derived from the reads in loop `number`.

    Raises `NotApplicableError` if a condition or other data decides what is read.
    """
    found = 0
    for use, enclosing in _reads(array, loops(kernel)[number].body, around(kernel, number)):
        least, greatest = extremes(use.subscripts[0], enclosing)
        if least is None or greatest is None or least < 0:
            raise NotApplicableError(f"it is not known how much of {array} is read")
        found = max(found, greatest + 1)
    return found


def _reads(
    array: str, body: Sequence[Statement], enclosing: list[For]
) -> Iterator[tuple[Element, list[For]]]:
    """Elements of an array that statements read, with the enclosing loops of each.

    Raises `NotApplicableError` if an element is read only under a condition.
    """
    for statement in body:
        if isinstance(statement, For):
            if statement.trips:
                yield from _reads(array, statement.body, [*enclosing, statement])
            continue
        uses = [e for e in expressions((statement,)) if isinstance(e, Element) and e.array == array]
        always = list(unconditional((statement,)))
        for use in uses:
            if use not in always:
                raise NotApplicableError(f"{array} is read only under a condition")
            yield use, enclosing


def is_read_whole(given: Parameter, kernel: Kernel, number: int) -> bool:
    """Whether loop `number` always reads as much of an input as the kernel declares."""
    try:
        elements_read(given.name, kernel, number)
    except NotApplicableError:
        return False
    return True


def column_of(terms: Mapping[Expr, int], offset: int, row: Var) -> tuple[Var | None, int] | None:
    """The variable of the column and the number added to it, or no variable and the column itself;
    None for any other column."""
    others = {term: factor for term, factor in terms.items() if term != row}
    if not others:
        return None, offset
    term = next(iter(others))
    return (term, offset) if isinstance(term, Var) and others == {term: 1} else None
