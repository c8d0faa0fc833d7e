"""A small form of C: loops over whole ranges, scalars, arrays and vectors of floats.

Conditions are values, as in C. An `if` becomes a `Select` for each variable or element that it
assigns.

A vector consists of `lanes` floats. `Load` is the vector that begins at an element of an array. All
records are frozen, so that rewrites share the unchanged parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Type = Literal[
    "int", "float", "vector", "double", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
    "uint32_t", "int64_t", "uint64_t", "_Bool",
]  # fmt: skip
"""Element types of parameters, which can be all types except vectors."""


@dataclass(frozen=True, slots=True)
class Number:
    """A literal as it is written."""

    text: str


INFINITY = Number("INFINITY")
"""The float constant of math.h; HUGE_VALF is another name for it."""


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
    """The vector that begins at an element. As the target of an assignment, the vector is stored
    there.

    Elements with another `type` are converted to floats. When they are stored, fractions are
    discarded.
    """

    array: str
    subscripts: tuple[Expr, ...]
    type: Type = "float"

    @property
    def converts(self) -> bool:
        """Whether the elements are not floats."""
        return self.type != "float"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an element, as an operand of a register command."""

    array: str
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Negative:
    """The negation `-value`."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """left operator right: arithmetic, comparisons, && and ||, and operators on bits."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """The conversion `(type)value`."""

    type: Type
    value: Expr


@dataclass(frozen=True, slots=True)
class Select:
    """condition ? value : other. Only the chosen value is computed."""

    condition: Expr
    value: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function of math.h or of `functions.py`."""

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

    @property
    def target_name(self) -> str:
        """The variable or the array that the statement changes."""
        return self.target.name if isinstance(self.target, Var) else self.target.array


@dataclass(frozen=True, slots=True)
class For:
    """for (int variable = first; variable < last; variable += step), with constant `first` and
    `last`.

    No iteration extends beyond `last`: the last one begins at `last - step` at most. The iterations
    are divided into contiguous parts for `threads` threads.

    If the bounds depend on data or on loops around, `limits` contains them, as expressions of
    variables that the body does not change. `first` and `last` are then an example, which only
    estimates use. If the loop is `bounded`, all values of its variable are between them.
    """

    variable: str
    first: int
    last: int
    step: int
    body: tuple[Statement, ...]
    threads: int = 1
    limits: tuple[Expr, Expr] | None = None
    bounded: bool = False

    @property
    def trips(self) -> int:
        """Number of iterations."""
        return max(0, -(-(self.last - self.first) // self.step))

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and largest value of the variable of a loop with iterations, or bounds for
        them if the loop is `bounded`."""
        if self.limits is not None:
            return self.first, self.last - 1
        return self.first, self.first + max(0, self.trips - 1) * self.step


@dataclass(frozen=True, slots=True)
class Command:
    """A command on numbered registers. `roles` are the operand roles that the target declares, in
    order."""

    name: str
    arguments: tuple[Expr, ...]
    roles: tuple[str, ...]


Statement: TypeAlias = Declare | Assign | Command | For


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the kernel, with all its sizes and the C type of its elements.

    A pointer has no sizes and one subscript. `restricted` says whether it has `restrict`. A static
    array that is never changed has its `values`, in memory order.
    """

    name: str
    sizes: tuple[int, ...]
    constant: bool
    type: Type = "float"
    restricted: bool = False
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Kernel:
    """A whole kernel. `lanes` is the length of its vectors, or 0 if there are none.

    `head` is text in front of the kernel. `registers` is the number of registers that `head`
    describes in lists with a value for each, or 0; each register has at most `block` rows and at
    most `block` bytes per row. `scratch` are the static arrays.
    """

    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    lanes: int = 0
    head: tuple[str, ...] = ()
    registers: int = 0
    block: tuple[int, int] = (1, 4)
    scratch: tuple[Parameter, ...] = ()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The direct parts of an expression."""
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
    """An expression and all its parts, at any depth."""
    yield expr
    for part in parts(expr):
        yield from walk(part)


def changed(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression after `change` was applied to each of its parts, from the innermost."""
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
    """The statement after `change` was applied to all its expressions, including targets."""
    if isinstance(statement, Declare):
        value = None if statement.value is None else changed(statement.value, change)
        return replace(statement, value=value)
    if isinstance(statement, Assign):
        target = changed(statement.target, change)
        assert isinstance(target, (Var, Element, Load))
        return Assign(target, changed(statement.value, change))
    if isinstance(statement, Command):
        return replace(statement, arguments=tuple(changed(a, change) for a in statement.arguments))
    if statement.limits is not None:
        begin, end = (changed(limit, change) for limit in statement.limits)
        statement = replace(statement, limits=(begin, end))
    return replace(statement, body=tuple(changed_in(s, change) for s in statement.body))


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements at any depth; those of a loop come after the loop."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from statements(statement.body)


def expressions(body: tuple[Statement, ...]) -> Iterator[Expr]:
    """All expressions of statements with all their parts, including targets."""
    for statement in statements(body):
        if isinstance(statement, Declare) and statement.value is not None:
            yield from walk(statement.value)
        elif isinstance(statement, Assign):
            yield from walk(statement.target)
            yield from walk(statement.value)
        elif isinstance(statement, Command):
            for argument in statement.arguments:
                yield from walk(argument)
        elif isinstance(statement, For) and statement.limits is not None:
            for limit in statement.limits:
                yield from walk(limit)


def loops(kernel: Kernel) -> list[For]:
    """All loops in the order of the text. The number of a loop is its position here."""
    return [s for s in statements(kernel.body) if isinstance(s, For)]


def around(kernel: Kernel, number: int) -> list[For]:
    """Loop `number` and its enclosing loops, the outermost first."""
    return path_to(loops(kernel)[number], kernel.body)


def path_to(loop: For, body: tuple[Statement, ...]) -> list[For]:
    """A loop and its enclosing loops, the outermost first; empty if the statements do not contain
    it."""
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
