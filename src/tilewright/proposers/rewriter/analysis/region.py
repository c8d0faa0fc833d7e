"""The points that a statement accesses, as intervals that depend on loops and conditions."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Condition, Loop, Stmt


@dataclass(frozen=True, slots=True)
class Region:
    """The points that one statement accesses: one interval for each dimension, under conditions.

    `dims` are half-open intervals [first, first + extent). `more` are additional dimensions of the
    points (the blocks of a wide move): name, smallest value, and end. `when` are conditions in
    addition to the enclosing loops and guards.
    """

    stmt: Stmt
    above: Body
    position: int
    dims: tuple[tuple[Expr, Expr], ...]
    more: tuple[tuple[str, Expr, Expr], ...] = ()
    when: Condition = ()
    unless: Condition | None = None

    @property
    def loops(self) -> list[Loop]:
        """The enclosing loops, outermost first."""
        return [s for s in self.above if isinstance(s, Loop)]
