"""Symbolic values of names and expressions in C while a kernel is lifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.rewriter.expr import Expr, Var
from tilewright.proposers.rewriter.ir import Condition, Flag, Local, Text


class NotModelled(Exception):
    """This code stays text; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of an element. Adding to it moves along dimension `axis`; None if it cannot
    move."""

    array: str
    index: tuple[Expr, ...]
    axis: int | None


@dataclass(frozen=True, slots=True)
class Flags:
    """Address bits without an address; no bits are the integer 0."""

    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """1 if a condition is true, otherwise 0."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Table:
    """An array of values that is not in memory: constants, or a local array of the kernel."""

    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A structure held by value: the value of each of its fields, if it is known."""

    fields: tuple[tuple[str, Value | None], ...]

    def get(self, name: str) -> Value | None:
        """The value of a field."""
        return dict(self.fields).get(name)

    def with_field(self, name: str, value: Value) -> Record:
        """The structure after an assignment to a field."""
        return Record(tuple((n, value if n == name else v) for n, v in self.fields))


@dataclass(frozen=True, slots=True)
class Reference:
    """The address of a local variable, as the variable's number in the scope."""

    slot: int


@dataclass(frozen=True, slots=True)
class Either:
    """An address or none, depending on a condition. A command with such an operand is written once
    for each of the two cases.
    """

    condition: Condition
    first: Local | Text
    second: Local | Text


@dataclass(frozen=True, slots=True)
class Word:
    """A local block that is packed into one number."""

    local: Local | Text
    columns: Expr
    rows: Expr


Value: TypeAlias = (
    "Expr | Local | Pointer | Flags | Truth | Table | Record | Reference | Either | Text | Word"
)

MARK = "@"
"""The end of the name of a variable that represents a value at the beginning of an unknown
iteration."""


_TOGGLES = "^"


def toggled_name(name: str, mask: int) -> str:
    """The name that represents `value ^ mask` for the value that a mark represents."""
    base, left = without_toggles(name).removesuffix(MARK), mask ^ toggles_in(name)
    return f"{base}{_TOGGLES}{left}{MARK}" if left else base + MARK


def toggles_in(name: str) -> int:
    """The mask of a name from `toggled_name`; 0 for other names."""
    return int(name.removesuffix(MARK).partition(_TOGGLES)[2] or 0)


def without_toggles(name: str) -> str:
    """The mark on which a name from `toggled_name` depends; other names are unchanged."""
    return name.partition(_TOGGLES)[0] + MARK if _TOGGLES in name else name


def is_marked(expr: Expr) -> bool:
    """Whether a value is a mark plus a constant."""
    return len(expr.terms) == 1 and all(
        isinstance(a, Var) and a.name.endswith(MARK) for a, _ in expr.terms
    )
