"""Points that a statement touches, as intervals under loops and conditions."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Body, Condition, Loop, Stmt


@dataclass(frozen=True, slots=True)
class Region:
    """Points that one statement touches: intervals, one per dimension, under conditions.

    `dims` are half-open intervals [first, first + extent); `more` adds dimensions that only
    spread the others (a wide move's blocks): name, smallest value, and its end.
    `when` are conditions on top of the loops and guards around.
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
        """The loops around it, outermost first."""
        return [s for s in self.above if isinstance(s, Loop)]
