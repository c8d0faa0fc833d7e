"""Finds out whether iterations of a loop can access the same elements of arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    assigned_in,
    changed_by,
    declared_names,
    used_by,
)
from tilewright.proposers.loops.analysis.conflicts import iterations_meet
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.ir import (
    Address,
    Assign,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Statement,
    Var,
    expressions,
    path_to,
    statements,
    walk,
)

Access = Element | Load | Address
_ELEMENT_BYTES = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2}


def require_independent(
    loop: For, kernel: Kernel, private: Collection[str] = (), changing: Collection[str] = ()
) -> None:
    """Raise unless no two iterations access the same element of an array that the loop writes.

    This is shown by the bounds of all loops (`conflicts.py`), or if one subscript is the same in
    all accesses to the array, except for constants. The subscript must grow with the loop's
    variable so that no access, including those of inner loops, meets what another iteration
    accesses, and it must contain no other variable that the loop changes.
    Arrays in `private` are separate for each iteration. Variables in `changing` may also differ
    between two iterations. The loop must be part of the kernel.
    """
    accesses = list(_accesses(loop.body, kernel, Ranges(loop.body)))
    written = {access.array for access, is_write, _ in accesses if is_write}
    inside = (changed_by(loop) | {*changing}) - {loop.variable}
    written -= {*private}
    for statement in statements(loop.body):
        if isinstance(statement, Command):
            _require_rows(statement, written, kernel)
    over = written & set(_reaching_over(loop, kernel))
    if over:
        raise NotApplicableError(f"vectors may extend beyond the ends of rows of {min(over)}")
    for array in written:
        here = [(access, ranges) for access, _, ranges in accesses if access.array == array]
        apart = any(_separates(loop, here, d, inside, kernel) for d in range(_rank(here)))
        if not apart and iterations_meet(loop, kernel, array, changing):
            raise NotApplicableError(f"iterations may touch the same elements of {array}")


def _rank(accesses: Sequence[tuple[Access, Ranges]]) -> int:
    return min(len(access.subscripts) for access, _ in accesses)


def _separates(
    loop: For,
    accesses: Sequence[tuple[Access, Ranges]],
    dimension: int,
    inside: set[str],
    kernel: Kernel,
) -> bool:
    same: dict[Expr, int] | None = None
    found: list[_Covered] = []
    for access, ranges in accesses:
        terms, low = linear(access.subscripts[dimension])
        high = low + _extent(access, dimension, kernel) - 1
        covered: list[tuple[int, int, int]] = []
        for term, factor in [*terms.items()]:
            if isinstance(term, Var) and term.name in ranges:
                del terms[term]
                least, greatest = sorted(factor * end for end in ranges[term.name])
                covered.append((abs(factor), least, greatest))
            elif term != Var(loop.variable) and used_by(term) & {*inside, loop.variable}:
                return False
        if same is not None and terms != same:
            return False
        same = terms
        found.append((low, high, covered))
    apart = abs((same or {}).get(Var(loop.variable), 0)) * loop.step
    strides = {stride for _, _, covered in found for stride, _, _ in covered}
    return apart > 0 and any(_apart(found, apart, loop.trips, s) for s in (0, *strides))


_Covered = tuple[int, int, list[tuple[int, int, int]]]
"""The first and last element of an access, and by which steps and how far loops inside move it."""


def _apart(found: Sequence[_Covered], apart: int, trips: int, stride: int) -> bool:
    """Whether accesses of two iterations, which are `apart` each from the next, never meet.

    Moves by multiples of a `stride`, if that is not 0, are left out: they never lead from one
    iteration to another if all others together are shorter. Rows of this length also differ by
    such a multiple, so only places within a row are compared.
    """
    covered = {
        (
            low - row + sum(least for step, least, _ in steps if not stride or step % stride),
            high - row + sum(most for step, _, most in steps if not stride or step % stride),
        )
        for low, high, steps in found
        for row in [low // stride * stride if stride else 0]
    }
    furthest = apart * (trips - 1)
    for low, high in covered:
        for other_low, other_high in covered:
            least, most = other_low - high, other_high - low
            if stride and furthest + max(abs(least), abs(most)) >= stride:
                return False
            if -(-max(least, apart) // apart) * apart <= min(most, furthest):
                return False  # some iterations later; earlier ones are met the other way round
    return True


class Ranges(dict[str, tuple[int, int]]):
    """The smallest and largest value of the variable of each enclosing loop.

    Not included are variables that are also assigned in the body, and those of loops whose bounds
    depend on data and are not known.
    """

    def __init__(self, body: tuple[Statement, ...]) -> None:
        super().__init__()
        self._others = assigned_in(body) | {*declared_names(body)}

    def within(self, loop: For) -> Ranges:
        """The ranges inside the body of a loop."""
        found = Ranges(())
        found._others = self._others
        found.update(self)
        if loop.variable not in self._others and (loop.limits is None or loop.bounded):
            found[loop.variable] = loop.range
        return found


def _reaching_over(loop: For, kernel: Kernel) -> Iterator[str]:
    """Arrays in which a vector can begin in one row and end in the next.

    Such a vector accesses more elements than its subscripts show.
    """
    sizes = {p.name: [p.sizes] for p in (*kernel.parameters, *kernel.scratch)}
    for statement in statements(kernel.body):
        if isinstance(statement, Declare):
            sizes.setdefault(statement.name, []).append(statement.sizes)
    for load, around in _loads(loop.body, path_to(loop, kernel.body)):
        dimension = len(load.subscripts) - 1
        end = _greatest(load.subscripts[-1], around)
        rows = [s[dimension] for s in sizes.get(load.array, ()) if len(s) > dimension]
        if dimension and (end is None or end + kernel.lanes > min(rows, default=0)):
            yield load.array


def _loads(body: tuple[Statement, ...], around: list[For]) -> Iterator[tuple[Load, list[For]]]:
    """Vectors that statements read and write, with the enclosing loops of each."""
    for statement in body:
        if isinstance(statement, For):
            yield from _loads(statement.body, [*around, statement])
        else:
            loads = (e for e in expressions((statement,)) if isinstance(e, Load))
            yield from ((load, around) for load in loads)


def _greatest(subscript: Expr, around: list[For]) -> int | None:
    """The largest value of a subscript; None if it contains anything other than variables of
    loops."""
    last = {o.variable: o.range for o in around if o.limits is None or o.bounded}
    terms, found = linear(subscript)
    for term, factor in terms.items():
        if not isinstance(term, Var) or term.name not in last:
            return None
        found += factor * last[term.name][factor > 0]
    return found


def extremes(subscript: Expr, around: Sequence[For]) -> tuple[int | None, int | None]:
    """The smallest and largest value of a subscript; None if it contains other variables than those
    of loops."""
    least = _greatest(Negative(subscript), [*around])
    return None if least is None else -least, _greatest(subscript, [*around])


def is_inside(element: Element, around: Sequence[For], kernel: Kernel) -> bool:
    """Whether an element is inside its array in all iterations of the enclosing loops."""
    sizes = {p.name: p.sizes for p in (*kernel.parameters, *kernel.scratch)}
    for statement in statements(kernel.body):
        if isinstance(statement, Declare) and statement.sizes:
            sizes[statement.name] = statement.sizes
    known = sizes.get(element.array, ())
    if len(known) != len(element.subscripts):
        return False
    for subscript, size in zip(element.subscripts, known, strict=True):
        least, greatest = extremes(subscript, around)
        if greatest is None or least is None or greatest >= size or least < 0:
            return False
    return True


def _extent(access: Access, dimension: int, kernel: Kernel) -> int:
    """Number of elements that an access covers along a dimension.

    A command accesses rows with the same distance as the rows of the array: see `_require_rows`.
    """
    following = len(access.subscripts) - 1 - dimension
    if isinstance(access, Load):
        return kernel.lanes if following == 0 else 1
    if isinstance(access, Element) or following > 1:
        return 1
    rows, row_bytes = kernel.block
    return rows if following == 1 else -(-row_bytes // element_bytes(access.array, kernel))


def element_bytes(array: str, kernel: Kernel) -> int:
    """Number of bytes of an element of a parameter or a static array."""
    return _ELEMENT_BYTES.get(array_types(kernel).get(array, "float"), 4)


def _accesses(
    body: tuple[Statement, ...], kernel: Kernel, ranges: Ranges
) -> Iterator[tuple[Access, bool, Ranges]]:
    """The accesses of statements: each with whether it is a write, and with the ranges at this
    place."""
    for statement in body:
        values: list[Expr] = []
        if isinstance(statement, For):
            yield from _accesses(statement.body, kernel, ranges.within(statement))
        elif isinstance(statement, Command):
            yield from ((at, is_write, ranges) for at, is_write in _touched(statement, kernel))
            values = [*statement.arguments]  # for the arrays that their subscripts read
        elif isinstance(statement, Declare) and statement.value is not None:
            values = [statement.value]
        elif isinstance(statement, Assign):
            values = [statement.value]
            if not isinstance(statement.target, Var):
                yield statement.target, True, ranges
                values += statement.target.subscripts
        for value in values:
            for expr in walk(value):
                if isinstance(expr, (Element, Load)):
                    yield expr, False, ranges


def _touched(command: Command, kernel: Kernel) -> Iterator[tuple[Address, bool]]:
    """The part of memory that a command accesses."""
    for argument, role in zip(command.arguments, command.roles, strict=True):
        if role not in ("dram_read", "dram_write"):
            continue
        if not isinstance(argument, Address):
            raise NotApplicableError(f"an operand of {command.name} is not an array element")
        yield argument, role == "dram_write"


def _require_rows(command: Command, written: Collection[str], kernel: Kernel) -> None:
    """Raise unless a command accesses whole rows of arrays that are written."""
    sizes = {p.name: p.sizes for p in (*kernel.parameters, *kernel.scratch)}
    operands = list(zip(command.arguments, command.roles, strict=True))
    strides = [argument for argument, role in operands if role == "row_stride_bytes"]
    for argument, _ in operands:
        if isinstance(argument, Address) and argument.array in written:
            row = sizes.get(argument.array, (0,))[-1] * element_bytes(argument.array, kernel)
            if strides != [Number(str(row))]:
                raise NotApplicableError(
                    f"{command.name} does not access contiguous rows of {argument.array}"
                )
