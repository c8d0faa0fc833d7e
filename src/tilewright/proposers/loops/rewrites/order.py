"""Exchange loops, and split them into blocks.

Before::

    for (int i = 0; i < 64; i++)
      for (int j = 0; j < 64; j++) C[i][j] = A[i] * B[j];

After the first loop and its inner loop are exchanged::

    for (int j = 0; j < 64; j++)
      for (int i = 0; i < 64; i++) C[i][j] = A[i] * B[j];

Declarations of the first loop before its inner loop, such as `float a = A[i];`, are moved into the
inner loop.

After the inner loop is split into blocks of 16 iterations::

    for (int j_1 = 0; j_1 < 64; j_1 += 16)
      for (int i = 0; i < 64; i++)
        for (int j = 0; j < 16; j++) C[i][j_1 + j] = A[i] * B[j_1 + j];
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    changed_by,
    fresh,
    names_in,
    reductions,
    visible_types,
)
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Binary,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Statement,
    Var,
    changed_in,
    loops,
    statements,
    walk,
    with_loop,
)
from tilewright.proposers.loops.rewrites.registers import require_private


def exchange(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` and its directly inner loop are exchanged.

    Raises `NotApplicableError`.
    """
    kernel, outer, inner = _nest(kernel, number)
    swapped = replace(inner, body=(replace(outer, body=inner.body),))
    return with_loop(kernel, number, (swapped,))


def block(kernel: Kernel, number: int, iterations: int) -> Kernel:
    """The kernel in which the loop directly inside loop `number` is split into blocks, and the
    loop over the blocks encloses both.

    Iterations that do not fill a block come after. Raises `NotApplicableError`.
    """
    kernel, outer, inner = _nest(kernel, number)
    if inner.threads > 1:
        raise NotApplicableError("the inner loop is shared among threads")
    if inner.trips < 2 * iterations:
        raise NotApplicableError(
            "the inner loop does not have enough iterations for two such blocks"
        )
    name = fresh(inner.variable, names_in(kernel))
    place = Binary("+", Var(name), Var(inner.variable))

    def moved(expr: Expr) -> Expr:
        return place if expr == Var(inner.variable) else expr

    size = iterations * inner.step
    body = tuple(changed_in(s, moved) for s in inner.body)
    inside = replace(inner, first=0, last=size, body=body)
    main = inner.first + inner.trips // iterations * size
    blocks = For(name, inner.first, main, size, (replace(outer, body=(inside,)),))
    new: list[Statement] = [blocks]
    if inner.trips % iterations:
        new.append(replace(outer, body=(replace(inner, first=main),)))
    return with_loop(kernel, number, tuple(new))


def _nest(kernel: Kernel, number: int) -> tuple[Kernel, For, For]:
    """A loop whose body is only another loop, and this inner loop, if their iterations can run in
    any order.

    Declarations of the outer loop before the inner one are moved into the inner loop.
    """
    outer = loops(kernel)[number]
    declared, inner = outer.body[:-1], outer.body[-1] if outer.body else None
    if not isinstance(inner, For):
        raise NotApplicableError("the body of the loop is not one loop")
    if outer.threads > 1:
        raise NotApplicableError(
            "the loop is shared among threads: change the order of its nest first"
        )
    if declared:
        _require_sinking(declared, inner)
        inner = replace(inner, body=(*declared, *inner.body))
        outer = replace(outer, body=(inner,))
        kernel = with_loop(kernel, number, (outer,))
    require_private(kernel, outer)
    try:
        _require_any_order(kernel, number)
    except NotApplicableError as error:
        try:
            # Then accesses to the same element must be in the same iteration of the inner loop.
            _require_any_order(kernel, number + 1, (outer.variable,))
        except NotApplicableError:
            raise error from None
    return kernel, outer, inner


def _require_sinking(declared: Sequence[Statement], inner: For) -> None:
    """Raise unless each iteration of a loop can compute the declarations before it again."""
    changing = changed_by(inner) | {
        s.target.array
        for s in statements(inner.body)
        if isinstance(s, Assign) and not isinstance(s.target, Var)
    }
    if any(isinstance(s, Command) for s in statements(inner.body)):
        raise NotApplicableError("the body of the loop is not one loop")
    for statement in declared:
        if not isinstance(statement, Declare) or statement.sizes or statement.value is None:
            raise NotApplicableError("the body of the loop is not one loop")
        used = {statement.name} | {
            e.name if isinstance(e, Var) else e.array
            for e in walk(statement.value)
            if isinstance(e, (Var, Element, Load, Address))
        }
        if used & changing:
            raise NotApplicableError(f"{statement.name} changes in the inner loop")


def _require_any_order(kernel: Kernel, number: int, changing: Sequence[str] = ()) -> None:
    loop = loops(kernel)[number]
    if reductions(loop, visible_types(kernel, number)):
        raise NotApplicableError("the loop carries a reduction")
    require_independent(loop, kernel, changing=changing)
