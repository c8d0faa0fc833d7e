"""What C names and expressions stand for while a kernel is lifted: symbolic values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.rewriter.expr import Expr, Var
from tilewright.proposers.rewriter.ir import Condition, Flag, Local, Text


class NotModelled(Exception):
    """This code stays text; the message says why."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of an element; adding to it steps along dimension `axis`, None for no step."""

    array: str
    index: tuple[Expr, ...]
    axis: int | None


@dataclass(frozen=True, slots=True)
class Flags:
    """Address bits without an address; none is the integer 0."""

    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """1 where a condition holds, else 0."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Table:
    """An array of values that no memory holds: constants, or a local array of the kernel's own."""

    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A structure held by value: what each of its fields holds, if that is known."""

    fields: tuple[tuple[str, Value | None], ...]

    def get(self, name: str) -> Value | None:
        """What a field holds."""
        return dict(self.fields).get(name)

    def with_field(self, name: str, value: Value) -> Record:
        """The structure after an assignment to a field."""
        return Record(tuple((n, value if n == name else v) for n, v in self.fields))


@dataclass(frozen=True, slots=True)
class Reference:
    """The address of a local variable, as the number by which a scope knows it."""

    slot: int


@dataclass(frozen=True, slots=True)
class Either:
    """An address or none at all, by a condition: the commands with it are written twice."""

    condition: Condition
    first: Local | Text
    second: Local | Text


@dataclass(frozen=True, slots=True)
class Word:
    """A local block packed into one number."""

    local: Local | Text
    columns: Expr
    rows: Expr


Value: TypeAlias = (
    "Expr | Local | Pointer | Flags | Truth | Table | Record | Reference | Either | Text | Word"
)

MARK = "@"
"""Ends the name of a variable that stands for a value at the head of an unknown iteration."""


def is_marked(expr: Expr) -> bool:
    """Whether a value is such a variable, up to a constant."""
    return len(expr.terms) == 1 and all(
        isinstance(a, Var) and a.name.endswith(MARK) for a, _ in expr.terms
    )
