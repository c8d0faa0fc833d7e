"""A small form of C: loops over whole ranges, scalars, arrays and vectors of floats.

Conditions are values, as in C; an `if` is a `Select` for each variable or element it assigns.

A vector is `lanes` floats; `Load` is the one that begins at an element of an array. Everything is
frozen, so that rewrites share what they leave alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Type = Literal[
    "int", "float", "vector", "double", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
    "uint32_t", "int64_t", "uint64_t", "_Bool",
]  # fmt: skip
"""Arrays of parameters may be of all but vectors."""


@dataclass(frozen=True, slots=True)
class Number:
    """A literal as it is written."""

    text: str


INFINITY = Number("INFINITY")
"""The float of math.h; HUGE_VALF is another name of it."""


@dataclass(frozen=True, slots=True)
class Var:
    """A scalar or vector variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an array."""

    array: str
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """The vector that begins at an element; as a target, where it is stored.

    Elements of another `type` are converted to floats, and stored without their fractions.
    """

    array: str
    subscripts: tuple[Expr, ...]
    type: Type = "float"

    @property
    def converts(self) -> bool:
        """Whether its elements are not floats."""
        return self.type != "float"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an element is, as an instruction on registers takes it."""

    array: str
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Negative:
    """-value."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """left operator right: arithmetic, comparisons, && and ||, and operators on bits."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """(type)value."""

    type: Type
    value: Expr


@dataclass(frozen=True, slots=True)
class Select:
    """condition ? value : other; only the one that is chosen is computed."""

    condition: Expr
    value: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the mathematical library or of `functions.py`."""

    function: str
    arguments: tuple[Expr, ...]


Expr: TypeAlias = Number | Var | Element | Load | Address | Negative | Binary | Cast | Select | Call
Target: TypeAlias = Var | Element | Load


@dataclass(frozen=True, slots=True)
class Declare:
    """A variable, or an array with constant sizes."""

    type: Type
    name: str
    sizes: tuple[int, ...] = ()
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """target = value."""

    target: Target
    value: Expr


@dataclass(frozen=True, slots=True)
class For:
    """for (int variable = first; variable < last; variable += step); `first` and `last` constant.

    The last iteration may begin at most `step` before `last`: no iteration reaches over it.
    So many `threads` share the iterations, each a contiguous part.
    """

    variable: str
    first: int
    last: int
    step: int
    body: tuple[Statement, ...]
    threads: int = 1

    @property
    def trips(self) -> int:
        """Iterations."""
        return max(0, -(-(self.last - self.first) // self.step))


@dataclass(frozen=True, slots=True)
class Command:
    """An instruction on numbered registers; `roles` are those the target declares, in order."""

    name: str
    arguments: tuple[Expr, ...]
    roles: tuple[str, ...]


Statement: TypeAlias = Declare | Assign | Command | For


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of the kernel, with all its sizes and the C type of its elements.

    A pointer has no sizes and one subscript. `restricted` is what `restrict` says. A static array
    that nothing changes has its `values`, in the order in which they lie.
    """

    name: str
    sizes: tuple[int, ...]
    constant: bool
    type: Type = "float"
    restricted: bool = False
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A whole kernel; `lanes` is the length of its vectors, 0 before there are any.

    `head` is text that stands in front of it. `registers` is how many it describes there, by lists
    with a value for each, or 0; each has at most `block` rows and bytes per row. `scratch` are its
    static arrays.
    """

    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    lanes: int = 0
    head: tuple[str, ...] = ()
    registers: int = 0
    block: tuple[int, int] = (1, 4)
    scratch: tuple[Parameter, ...] = ()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """What an expression is made of."""
    if isinstance(expr, (Element, Load, Address)):
        return expr.subscripts
    if isinstance(expr, (Negative, Cast)):
        return (expr.value,)
    if isinstance(expr, Binary):
        return (expr.left, expr.right)
    if isinstance(expr, Select):
        return (expr.condition, expr.value, expr.other)
    return expr.arguments if isinstance(expr, Call) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and all it is made of."""
    yield expr
    for part in parts(expr):
        yield from walk(part)


def changed(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` applied to each of its parts, from the inside out."""
    if isinstance(expr, (Element, Load, Address)):
        subscripts = tuple(changed(s, change) for s in expr.subscripts)
        expr = replace(expr, subscripts=subscripts)
    elif isinstance(expr, Negative):
        expr = Negative(changed(expr.value, change))
    elif isinstance(expr, Cast):
        expr = Cast(expr.type, changed(expr.value, change))
    elif isinstance(expr, Select):
        expr = Select(*(changed(part, change) for part in parts(expr)))
    elif isinstance(expr, Binary):
        expr = Binary(expr.operator, changed(expr.left, change), changed(expr.right, change))
    elif isinstance(expr, Call):
        expr = Call(expr.function, tuple(changed(a, change) for a in expr.arguments))
    return change(expr)


def changed_in(statement: Statement, change: Callable[[Expr], Expr]) -> Statement:
    """The statement with `change` applied to all its expressions, targets included."""
    if isinstance(statement, Declare):
        value = None if statement.value is None else changed(statement.value, change)
        return replace(statement, value=value)
    if isinstance(statement, Assign):
        target = changed(statement.target, change)
        assert isinstance(target, (Var, Element, Load))
        return Assign(target, changed(statement.value, change))
    if isinstance(statement, Command):
        return replace(statement, arguments=tuple(changed(a, change) for a in statement.arguments))
    return replace(statement, body=tuple(changed_in(s, change) for s in statement.body))


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, those of loops after the loop."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from statements(statement.body)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """All expressions of statements with all they are made of, targets included."""
    for statement in statements(body):
        if isinstance(statement, Declare) and statement.value is not None:
            yield from walk(statement.value)
        elif isinstance(statement, Assign):
            yield from walk(statement.target)
            yield from walk(statement.value)
        elif isinstance(statement, Command):
            for argument in statement.arguments:
                yield from walk(argument)


def loops(kernel: Kernel) -> list[For]:
    """All loops in textual order; a loop's number is its place here."""
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def around(kernel: Kernel, number: int) -> list[For]:
    """Loop `number` and those that it lies in, the outermost first."""
    return path_to(loops(kernel)[number], kernel.body)


def path_to(loop: For, body: tuple[Statement, ...]) -> list[For]:
    """A loop among statements and those that it lies in, the outermost first; empty without it."""
    for statement in body:
        if isinstance(statement, For):
            if statement is loop:
                return [statement]
            found = path_to(loop, statement.body)
            if found:
                return [statement, *found]
    return []


def with_loop(kernel: Kernel, number: int, new: tuple[Statement, ...]) -> Kernel:
    """The kernel with other statements in place of loop `number`."""
    count = -1

    def visit(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        nonlocal count
        found: list[Statement] = []
        for statement in body:
            if isinstance(statement, For):
                count += 1
                if count == number:
                    found += new
                    count += sum(isinstance(s, For) for s in statements(statement.body))
                    continue
                statement = replace(statement, body=visit(statement.body))
            found.append(statement)
        return tuple(found)

    return replace(kernel, body=visit(kernel.body))
