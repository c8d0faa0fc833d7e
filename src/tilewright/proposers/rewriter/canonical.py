"""A canonical form of a kernel's source, which recognises equal kernels that are written
differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Assign,
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    Opaque,
    Stmt,
    map_expressions,
    rebuilt,
    walk,
)
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine


def canonical_text(source: str, machine: Machine, form: Callable[[str], str]) -> str:
    """The source without comments and layout. Loop variables are numbered if all their uses are
    modelled.

    `form` is the normal form of C. It is used for source that cannot be lifted, and for text around
    the kernel or unrecognised code.
    """
    try:
        kernel = simplify(lift(source, machine))
    except InputError:
        return form(source)
    text = _canonical(kernel, form)
    return "\n".join([form(kernel.before), text, form(kernel.after)])


def are_alike(first: Kernel, second: Kernel, machine: Machine) -> bool:
    """Whether two kernels execute the same operations in the same order, even if loops and settings
    are written differently."""

    def commands_of(kernel: Kernel) -> str:
        body = rebuilt(
            kernel.body,
            lambda s: () if isinstance(s, Command) and machine.unit(s.name) == "config" else None,
        )
        return _canonical(replace(kernel, body=body, signature="", words=None), str)

    return commands_of(first) == commands_of(second)


def _canonical(kernel: Kernel, form: Callable[[str], str]) -> str:
    body = _bare(kernel.body, [0], form)
    return emit(Kernel("", kernel.signature, kernel.arrays, body, "", words=kernel.words))


def _bare(body: Body, counter: list[int], form: Callable[[str], str]) -> Body:
    return tuple(_bare_one(s, counter, form) for s in body)


def _bare_one(stmt: Stmt, counter: list[int], form: Callable[[str], str]) -> Stmt:
    match stmt:
        case Command():
            return replace(stmt, notes=(), trailing="")
        case Assign():
            return replace(stmt, notes=())
        case Opaque(text):
            return replace(stmt, text=form(text), notes=())
        case Guard():
            return replace(
                stmt,
                body=_bare(stmt.body, counter, form),
                orelse=_bare(stmt.orelse, counter, form),
                notes=(),
            )
        case Loop():
            if not any(isinstance(s, Opaque) for s in walk(stmt.body)):
                stmt = _numbered(stmt, counter)
            return replace(stmt, body=_bare(stmt.body, counter, form), notes=())


def _numbered(loop: Loop, counter: list[int]) -> Loop:
    counter[0] += 1
    fresh = f"v{counter[0]}_"

    def rename(expr: Expr) -> Expr:
        return expr.substituted({loop.var: var(fresh)})

    return replace(loop, var=fresh, body=map_expressions(loop.body, rename))
