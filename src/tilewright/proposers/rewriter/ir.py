"""The loop IR: nests of accelerator commands with symbolic operands.

Statements are compared by identity, so that one of two equal commands can be identified;
expressions and operands are compared by value. Everything is immutable: a rewrite builds a new
tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tilewright.proposers.rewriter.expr import Atom, Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`, with op one of < <= > >= == !=."""

    op: str
    left: Expr
    right: Expr


Condition: TypeAlias = tuple[Compare, ...]
"""All of the comparisons are true."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An address bit that is set always, or only `when` a condition is true."""

    name: str
    when: Condition = ()


@dataclass(frozen=True, slots=True)
class Local:
    """A local address: `space(row)` with flags."""

    space: str
    row: Expr
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class Dram:
    """The address of an element of an argument array, with one index per dimension."""

    array: str
    index: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """An operand that is kept as written, because it contains no variable of the kernel."""

    text: str


Operand: TypeAlias = Expr | Local | Dram | Text


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """One accelerator command. `notes` are comment lines before it, `trailing` is a comment after
    it."""

    name: str
    operands: tuple[Operand, ...]
    notes: tuple[str, ...] = ()
    trailing: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """`for (int var = lower; var < upper; var += step)`; the step is positive.

    A compiler is asked to repeat the body `hint` times, if this is not 0.
    """

    var: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Stmt, ...]
    notes: tuple[str, ...] = ()
    hint: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """`if (condition) body else orelse`."""

    condition: Condition
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """Unrecognised code, which is kept as written. Nothing is moved across it.

    `names` are the identifiers in it, `reason` says why it is not recognised, and `line` is its
    line in the source.
    """

    text: str
    names: frozenset[str]
    reason: str
    notes: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Assign:
    """`target = sum of factor * element + constant`, computed by the core."""

    target: Dram
    terms: tuple[tuple[float, Dram], ...]
    constant: float = 0.0
    notes: tuple[str, ...] = ()


Stmt: TypeAlias = Command | Loop | Guard | Opaque | Assign
Body: TypeAlias = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """An array with literal sizes (empty if unknown): a parameter, or a `local` array.

    The first size is 0 if only this size is unknown, as for a pointer. A `static` local array keeps
    its values from call to call. An array from `outside` of the kernel's function is declared in
    the text before it.
    """

    name: str
    shape: tuple[int, ...]
    element: str = ""
    local: bool = False
    static: bool = False
    outside: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """A command that takes packed blocks: its name, and the meaning of each of its operands.

    A single position is an ordinary operand; three positions are a local address with its columns
    and rows.
    """

    name: str
    operands: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Words:
    """How a target packs the address and size of a local block into one word: the macro for it, and
    the form of each command that takes such words."""

    macro: str
    forms: Mapping[str, Form]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel function and the text around it.

    `names` contains the names that the author gave to expressions, which are used for printing.
    With `words`, local blocks of constant size are printed as packed words.
    """

    before: str
    signature: str
    arrays: tuple[Array, ...]
    body: Body
    after: str
    names: Mapping[Atom, str] = field(default_factory=dict)
    words: Words | None = None

    def with_body(self, body: Body) -> Kernel:
        """The same kernel with another body."""
        return replace(self, body=body)


def children(stmt: Stmt) -> Body:
    """The direct children of a statement."""
    if isinstance(stmt, Loop):
        return stmt.body
    if isinstance(stmt, Guard):
        return stmt.body + stmt.orelse
    return ()


def walk(body: Body) -> Iterator[Stmt]:
    """All statements in the order of the text, outer before inner."""
    for stmt in body:
        yield stmt
        yield from walk(children(stmt))


def walk_paths(body: Body, above: Body = ()) -> Iterator[tuple[Stmt, Body]]:
    """All statements with their enclosing loops and guards, outermost first."""
    for stmt in body:
        yield stmt, above
        yield from walk_paths(children(stmt), (*above, stmt))


def commands(body: Body) -> Iterator[Command]:
    """All commands in the order of the text."""
    return (s for s in walk(body) if isinstance(s, Command))


def arrays_of(command: Command) -> set[str]:
    """The arrays that a command accesses."""
    return {o.array for o in command.operands if isinstance(o, Dram)}


def core_names(stmt: Stmt) -> frozenset[str]:
    """The arrays and other names that a statement of the core uses; empty for other statements."""
    if isinstance(stmt, Assign):
        return frozenset(d.array for d in (stmt.target, *(d for _, d in stmt.terms)))
    return stmt.names if isinstance(stmt, Opaque) else frozenset()


def same_kernel(left: Kernel, right: Kernel) -> bool:
    """Whether two versions of a kernel have the same code and are printed in the same way."""
    return left.words is right.words and same_code(left.body, right.body)


def same_code(left: Body, right: Body) -> bool:
    """Whether two bodies have the same code, apart from comments."""
    return len(left) == len(right) and all(
        _code(a) == _code(b) and same_code(children(a), children(b))
        for a, b in zip(left, right, strict=True)
    )


def _code(stmt: Stmt) -> tuple[object, ...]:
    match stmt:
        case Command(name, operands):
            return name, operands
        case Loop(name, lower, upper, step, _, _, hint):
            return name, lower, upper, step, hint
        case Guard(condition, body):
            return condition, len(body)
        case Opaque(text):
            return (text,)
        case Assign(target, terms, const):
            return target, terms, const


def is_core_loop(loop: Loop) -> bool:
    """Whether a loop contains only code that the core runs, and no other loop."""
    return all(isinstance(s, Opaque | Assign) for s in loop.body)


def has_opaque(body: Body) -> bool:
    """Whether the statements contain anything other than commands: text, or code that the core
    runs."""
    return any(isinstance(s, Opaque | Assign) for s in walk(body))


Change: TypeAlias = Callable[[Stmt], "Body | None"]


def rebuilt(body: Body, change: Change) -> Body:
    """The body after `change` was applied to each statement, outermost first.

    It returns the statements that replace a statement, or None to keep it and continue inside. A
    loop or guard whose body becomes empty is removed.
    """
    result: list[Stmt] = []
    for stmt in body:
        new = change(stmt)
        if new is not None:
            result.extend(new)
        elif isinstance(stmt, Loop):
            inner = rebuilt(stmt.body, change)
            result.extend([_with(stmt, inner)] if inner else [])
        elif isinstance(stmt, Guard):
            yes, no = rebuilt(stmt.body, change), rebuilt(stmt.orelse, change)
            if yes or no:
                result.append(
                    stmt
                    if (yes, no) == (stmt.body, stmt.orelse)
                    else replace(stmt, body=yes, orelse=no)
                )
        else:
            result.append(stmt)
    return tuple(result)


def _with(loop: Loop, body: Body) -> Loop:
    return loop if body == loop.body else replace(loop, body=body)


def map_expressions(body: Body, change: Callable[[Expr], Expr]) -> Body:
    """The body in which every expression of bounds, conditions and operands is replaced by
    `change(expression)`."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Command):
            operands = tuple(map_operand(o, change) for o in stmt.operands)
            result.append(stmt if operands == stmt.operands else replace(stmt, operands=operands))
        elif isinstance(stmt, Loop):
            lower, upper = change(stmt.lower), change(stmt.upper)
            body = map_expressions(stmt.body, change)
            same = body == stmt.body and lower == stmt.lower and upper == stmt.upper
            result.append(stmt if same else replace(stmt, lower=lower, upper=upper, body=body))
        elif isinstance(stmt, Guard):
            condition = map_condition(stmt.condition, change)
            body = map_expressions(stmt.body, change)
            orelse = map_expressions(stmt.orelse, change)
            kept = (condition, body, orelse) == (stmt.condition, stmt.body, stmt.orelse)
            result.append(
                stmt if kept else replace(stmt, condition=condition, body=body, orelse=orelse)
            )
        elif isinstance(stmt, Assign):
            result.append(_map_assign(stmt, change))
        else:
            result.append(stmt)
    return tuple(result)


def _map_assign(stmt: Assign, change: Callable[[Expr], Expr]) -> Assign:
    def element(dram: Dram) -> Dram:
        return Dram(dram.array, tuple(change(e) for e in dram.index))

    terms = tuple((factor, element(dram)) for factor, dram in stmt.terms)
    return replace(stmt, target=element(stmt.target), terms=terms)


def map_operand(operand: Operand, change: Callable[[Expr], Expr]) -> Operand:
    """One operand with its expressions replaced."""
    match operand:
        case Expr():
            return change(operand)
        case Local(space, row, flags):
            new = change(row)
            mapped = tuple(Flag(f.name, map_condition(f.when, change)) for f in flags)
            return operand if new is row and mapped == flags else Local(space, new, mapped)
        case Dram(array, index):
            return Dram(array, tuple(change(e) for e in index))
    return operand


def map_condition(condition: Condition, change: Callable[[Expr], Expr]) -> Condition:
    """A condition with its expressions replaced."""
    return tuple(Compare(c.op, change(c.left), change(c.right)) for c in condition)


def expressions(operand: Operand) -> Iterator[Expr]:
    """The expressions of an operand, including those of conditional flags."""
    match operand:
        case Expr():
            yield operand
        case Local(_, row, flags):
            yield row
            for flag in flags:
                for compare in flag.when:
                    yield from (compare.left, compare.right)
        case Dram(_, index):
            yield from index


def names_in(command: Command) -> frozenset[str]:
    """Every variable in a command."""
    found: frozenset[str] = frozenset()
    for operand in command.operands:
        for expr in expressions(operand):
            found |= expr.names()
    return found


def fresh_name(kernel: Kernel, base: str) -> str:
    """An unused name for a loop inside the loop over `base`, such as `kk` inside `k`."""
    return unused_name(kernel, base * 2 if len(base) == 1 else f"{base}_in")


def unused_name(kernel: Kernel, stem: str) -> str:
    """The name if no variable of the kernel has it, otherwise the name with a number."""
    taken = {s.var for s in walk(kernel.body) if isinstance(s, Loop)}
    taken |= {a.name for a in kernel.arrays} | set(kernel.names.values())
    taken |= {n for s in walk(kernel.body) if isinstance(s, Opaque) for n in s.names}
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}{number}", number + 1
    return name
