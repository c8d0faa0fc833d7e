"""Read elements again that a loop keeps in variables for its next iterations.

Before (X is never written)::

    float a = X[0], b = X[1];
    for (int i = 0; i < 62; i++) { float c = X[i + 2]; Y[i] = a + b + c; a = b; b = c; }

After::

    float a = X[0], b = X[1];
    for (int i = 0; i < 62; i++) { float c = X[i + 2]; Y[i] = X[i] + X[i + 1] + c; }

The iterations no longer depend on one another, so that they can become vectors. If the variables
begin with other values, such as 0, the first iterations stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    set_by,
    visible_types,
)
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Number,
    Type,
    Var,
    changed,
    changed_in,
    expressions,
    loops,
    path_to,
    statements,
    walk,
    with_loop,
)


def without_window(kernel: Kernel, number: int) -> Kernel:
    """The kernel in which loop `number` keeps no elements in variables. Raises
    `NotApplicableError`."""
    loop = loops(kernel)[number]
    kept = _kept(loop, kernel, visible_types(kernel, number))
    if not kept or loop.step != 1 or loop.threads > 1 or not loop.trips:
        raise NotApplicableError("the loop keeps no elements for later iterations")
    before = _values_before(loop, kernel)
    first = loop.first
    if not all(
        _same(before.get(name), _at(element, loop, Number(str(first))))
        for name, element in kept.items()
    ):
        first += len(kept)  # by then, each variable holds an element that the loop has read
    if first >= loop.last:
        raise NotApplicableError(
            "the loop is too short, because its variables do not begin with elements of the array"
        )
    body = tuple(
        changed_in(s, lambda e: kept.get(e.name, e) if isinstance(e, Var) else e)
        for s in loop.body
        if not (isinstance(s, Assign) and isinstance(s.target, Var) and s.target.name in kept)
    )
    # What a variable holds after the last iteration is what the next iteration would read.
    # The first iterations of the next run of the loop read it too.
    again = first > loop.first and len(path_to(loop, kernel.body)) > 1
    end = Number(str(loop.first + loop.trips))
    after = [
        Assign(Var(name), _at(element, loop, end))
        for name, element in kept.items()
        if again or _is_read_outside(name, loop, kernel)
    ]
    early = [replace(loop, last=first)] if first > loop.first else []
    return with_loop(kernel, number, (*early, replace(loop, first=first, body=body), *after))


def _kept(loop: For, kernel: Kernel, types: Mapping[str, Type]) -> dict[str, Element]:
    """For each variable that holds an element of an earlier iteration, this element.

    `types` are the types of the variables that are visible at the beginning of the loop.
    """
    assigned = {s.target for s in statements(loop.body) if isinstance(s, Assign)}
    arrays = array_types(kernel)
    holds: dict[str, Element] = {}
    for statement in loop.body:
        if isinstance(statement, Declare) and _is_fixed(statement.value, loop, kernel):
            assert isinstance(statement.value, Element)
            same = statement.type == arrays[statement.value.array]
            if same and Var(statement.name) not in assigned:
                holds[statement.name] = statement.value
    found: dict[str, Element] = {}
    moves = [s for s in loop.body if isinstance(s, Assign) and isinstance(s.target, Var)]
    for move in reversed(moves):  # the variable that is set last holds the latest element
        assert isinstance(move.target, Var)
        name, value = move.target.name, move.value
        element = holds.get(value.name) if isinstance(value, Var) else value
        if not isinstance(element, Element) or not _is_fixed(element, loop, kernel):
            continue
        if types.get(name) != arrays[element.array] or not _is_last(name, move, loop):
            continue
        earlier = Binary("-", Var(loop.variable), Number("1"))
        found[name] = holds[name] = _at(element, loop, earlier)
    return found


def _is_fixed(value: Expr | None, loop: For, kernel: Kernel) -> bool:
    """Whether a value is an element of an input, at a place that depends on loops only."""
    inputs = {p.name for p in kernel.parameters if p.constant}
    if not isinstance(value, Element) or value.array not in inputs:
        return False
    around = {o.variable for o in path_to(loop, kernel.body)}
    terms = [term for subscript in value.subscripts for term in linear(subscript)[0]]
    return all(isinstance(term, Var) and term.name in around for term in terms)


def _is_last(name: str, move: Assign, loop: For) -> bool:
    """Whether a statement sets a variable, which no other statement sets, after its last use."""
    place = next(i for i, s in enumerate(loop.body) if s is move)
    uses = [i for i, s in enumerate(loop.body) if Var(name) in expressions((s,))]
    set_by = [s for s in statements(loop.body) if isinstance(s, Assign) and s.target == Var(name)]
    return uses[-1] == place and len(set_by) == 1 and Var(name) not in walk(move.value)


def _is_read_outside(name: str, loop: For, kernel: Kernel) -> bool:
    """Whether statements outside a loop use the value of a variable."""
    inside = {id(s) for s in statements(loop.body)}
    return any(
        isinstance(s, (Assign, Declare))
        and id(s) not in inside
        and s.value is not None
        and Var(name) in walk(s.value)
        for s in statements(kernel.body)
    )


def _values_before(loop: For, kernel: Kernel) -> Mapping[str, Expr]:
    """The values of variables at the beginning of a loop that are set in front of it."""
    path = path_to(loop, kernel.body)
    body = path[-2].body if len(path) > 1 else kernel.body
    found: dict[str, Expr] = {}
    for statement in body[: next(i for i, s in enumerate(body) if s is loop)]:
        for name in set_by((statement,)):
            found.pop(name, None)
        if isinstance(statement, Declare) and statement.value is not None:
            found[statement.name] = statement.value
        elif isinstance(statement, Assign) and isinstance(statement.target, Var):
            found[statement.target.name] = statement.value
    return found


def _at(element: Element, loop: For, place: Expr) -> Element:
    """The element that an iteration reads, for the iteration at a place."""
    moved = changed(element, lambda e: place if e == Var(loop.variable) else e)
    assert isinstance(moved, Element)
    return replace(moved, subscripts=tuple(map(_simple, moved.subscripts)))


def _simple(subscript: Expr) -> Expr:
    """A subscript with its constants added."""
    terms, offset = linear(subscript)
    if any(factor < 0 for factor in terms.values()) or (offset < 0 and not terms):
        return subscript
    found: Expr | None = None
    for term, factor in terms.items():
        product = term if factor == 1 else Binary("*", term, Number(str(factor)))
        found = product if found is None else Binary("+", found, product)
    constant = Number(str(abs(offset)))
    if found is None:
        return constant
    return Binary("+" if offset > 0 else "-", found, constant) if offset else found


def _same(one: Expr | None, other: Element) -> bool:
    """Whether two expressions are the same element."""
    if not isinstance(one, Element) or one.array != other.array:
        return False
    pairs = zip(one.subscripts, other.subscripts, strict=True)
    return all(linear(a) == linear(b) for a, b in pairs)
