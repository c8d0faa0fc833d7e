"""A canonical form of a kernel's source, for recognising the same kernel written differently."""

from __future__ import annotations

from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.analysis import simplify
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
    walk,
)
from tilewright.proposers.rewriter.lift import lift
from tilewright.proposers.rewriter.machine import Machine


def canonical_text(source: str, machine: Machine | None) -> str:
    """Comments and layout removed; loop variables numbered where all their uses are modelled.

    Without a machine, or for source that cannot be lifted, only white space is normalised.
    """
    if machine is None:
        return " ".join(source.split())
    try:
        kernel = simplify(lift(source, machine))
    except InputError:
        return " ".join(source.split())
    return emit(Kernel("", kernel.signature, kernel.arrays, _bare(kernel.body, [0]), ""))


def _bare(body: Body, counter: list[int]) -> Body:
    return tuple(_bare_one(s, counter) for s in body)


def _bare_one(stmt: Stmt, counter: list[int]) -> Stmt:
    match stmt:
        case Command():
            return replace(stmt, notes=(), trailing="")
        case Assign():
            return replace(stmt, notes=())
        case Opaque(text):
            return replace(stmt, text=" ".join(text.split()), notes=())
        case Guard():
            return replace(
                stmt, body=_bare(stmt.body, counter), orelse=_bare(stmt.orelse, counter), notes=()
            )
        case Loop():
            if not any(isinstance(s, Opaque) for s in walk(stmt.body)):
                stmt = _numbered(stmt, counter)
            return replace(stmt, body=_bare(stmt.body, counter), notes=())


def _numbered(loop: Loop, counter: list[int]) -> Loop:
    counter[0] += 1
    fresh = f"v{counter[0]}_"

    def rename(expr: Expr) -> Expr:
        return expr.substituted({loop.var: var(fresh)})

    return replace(loop, var=fresh, body=map_expressions(loop.body, rename))
