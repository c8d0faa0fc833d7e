"""Finds loops that threads can share, and what is private to an iteration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import product

from tilewright.proposers.loops.analysis.changes import NotApplicableError, assigned_in
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
    Negative,
    Number,
    Statement,
    Var,
    around,
    expressions,
    statements,
    walk,
)

MOST_PRIVATE_BYTES = 64 << 10
"""Maximum size of arrays that are private to an iteration, because they are on the stack of a
thread."""
_MOST_FOLLOWED = 1 << 13
"""Maximum number of statements that are followed one by one when an array is made private."""
_MOST_ELEMENTS = 1 << 15
"""Maximum number of elements that are followed one by one when an array is made private."""


def require_shareable(loop: For, kernel: Kernel) -> None:
    """Raise unless the loop's iterations can run in parallel on its number of threads.

    For this, each iteration must write its own elements, and only variables that it declares
    itself.
    """
    if loop.trips < loop.threads:
        raise NotApplicableError(f"{loop.trips} iterations are too few for {loop.threads} threads")
    own: dict[str, int] = {}
    for statement in statements(loop.body):
        if isinstance(statement, Command):
            raise NotApplicableError(f"{statement.name} uses registers, which threads do not share")
        if isinstance(statement, For) and statement.limits is not None:
            raise NotApplicableError("it contains a loop whose bounds depend on data")
        if isinstance(statement, For) and statement.threads > 1:
            raise NotApplicableError("an inner loop is already shared among threads")
        if isinstance(statement, Declare):
            width = kernel.lanes if statement.type == "vector" else 1
            own[statement.name] = 4 * width * math.prod(statement.sizes) if statement.sizes else 0
    if sum(own.values()) > MOST_PRIVATE_BYTES:
        raise NotApplicableError("the arrays of an iteration are too large for a thread's stack")
    outside = sorted(assigned_in(loop.body) - set(own))
    if outside:
        raise NotApplicableError(f"all iterations use the same variable {outside[0]}")
    require_independent(loop, kernel, private=own)


def require_sharing(kernel: Kernel) -> None:
    """Raise unless every loop that is shared among threads can be shared."""
    for statement in statements(kernel.body):
        if isinstance(statement, For) and statement.threads > 1:
            require_shareable(statement, kernel)


def regions(kernel: Kernel, number: int) -> int:
    """How often threads are woken if they share loop `number`: once each time the loop is
    started."""
    return math.prod(loop.trips for loop in around(kernel, number)[:-1])


def require_rewritten(loop: For, variable: Declare, lanes: int) -> None:
    """Raise unless each iteration writes a variable or an array before it reads it.

    Then an iteration does not use values of another iteration.
    """
    try:
        _Rewriting(variable, lanes).check(loop.body, ())
    except NotApplicableError:
        if not variable.sizes:
            raise
        _Accesses(variable.name).follow(loop.body, {})


class _Accesses:
    """Follows all accesses to an array in one iteration, in their order, as for triangular
    matrices.

    This is the same in every iteration if only the variables of inner loops decide which elements
    are accessed.
    """

    def __init__(self, array: str) -> None:
        self._array = array
        self._written: set[tuple[int, ...]] = set()
        self._followed = 0

    def follow(self, body: tuple[Statement, ...], known: Mapping[str, int]) -> None:
        """Raise unless each element is written before it is read. The variables of the loops around
        the body have the `known` values."""
        for statement in body:
            if not uses_of(self._array, (statement,)):
                continue
            if isinstance(statement, For):
                first, end = statement.first, statement.last
                if statement.limits is not None:
                    first, end = (_value(limit, known) for limit in statement.limits)
                for value in range(first, end, statement.step):
                    self.follow(statement.body, {**known, statement.variable: value})
                continue
            self._followed += 1
            if self._followed > _MOST_FOLLOWED:
                raise NotApplicableError(f"{self._array} is accessed too often")
            for place in _read(statement, self._array):
                if self._at(place, known) not in self._written:
                    what = f"{self._array} may contain values of another iteration"
                    raise NotApplicableError(what)
            if isinstance(statement, Assign) and _name(statement.target) == self._array:
                self._written.add(self._at(statement.target, known))

    def _at(self, place: Expr, known: Mapping[str, int]) -> tuple[int, ...]:
        if not isinstance(place, Element):
            raise NotApplicableError(f"{self._array} is not accessed element by element")
        return tuple(_value(subscript, known) for subscript in place.subscripts)


class _Rewriting:
    """Tracks which elements of an array, or whether a variable, was written."""

    def __init__(self, variable: Declare, lanes: int) -> None:
        self._name = variable.name
        self._sizes = variable.sizes
        self._lanes = 1 if variable.type == "vector" else lanes

    def check(
        self,
        body: tuple[Statement, ...],
        path: tuple[For, ...],
        before: Collection[tuple[int, ...]] = (),
        just: Collection[Expr] = (),
    ) -> None:
        """Raise if something is read that was written neither `before` nor earlier in the body.

        `path` contains the loops around the body. A write inside one of them counts after this loop
        has ended. Within one iteration of all of them, a write counts for reads with the same
        subscripts (`just` written).
        """
        written, in_words = set(before), set(just)
        changing = {loop.variable for loop in path}
        for statement in body:
            for place in _read(statement, self._name):
                if place not in in_words and not self._elements(place, path) <= written:
                    raise NotApplicableError(
                        f"{self._name} may contain values of another iteration"
                    )
            if isinstance(statement, For):
                self.check(statement.body, (*path, statement), written, in_words)
            elif isinstance(statement, Assign) and _variables(statement.target) <= changing:
                in_words.add(statement.target)
            for place, inside in _written(statement, self._name):
                if not _variables(place) & changing:
                    written |= self._elements(place, inside)

    def _elements(self, place: Expr, path: tuple[For, ...]) -> set[tuple[int, ...]]:
        """All elements that an access covers while the loops of `path` run."""
        subscripts = place.subscripts if isinstance(place, (Element, Load)) else ()
        if len(subscripts) != len(self._sizes):
            raise NotApplicableError(f"{self._name} is not accessed element by element")
        used = _variables(place)
        over = [loop for loop in path if loop.variable in used]
        if any(loop.limits is not None and not loop.bounded for loop in over):
            raise NotApplicableError(f"it is not known which elements of {self._name} are accessed")
        if math.prod(loop.trips for loop in over) > _MOST_ELEMENTS:
            raise NotApplicableError(f"too many elements of {self._name} are accessed")
        found: set[tuple[int, ...]] = set()
        for values in product(*(range(o.first, o.last, _steps(o)) for o in over)):
            known = dict(zip((o.variable for o in over), values, strict=True))
            first = tuple(_value(s, known) for s in subscripts)
            found.add(first)
            if isinstance(place, Load):
                found |= {(*first[:-1], first[-1] + lane) for lane in range(self._lanes)}
        return found


def _steps(loop: For) -> int:
    """The distance of values that a loop's variable may have."""
    return loop.step if loop.limits is None else 1


def _read(statement: Statement, name: str) -> Iterator[Expr]:
    """The read accesses of a statement, without those in inner loops."""
    if isinstance(statement, Declare) and statement.value is not None:
        yield from _named(statement.value, name)
    elif isinstance(statement, Assign):
        yield from _named(statement.value, name)
        if not isinstance(statement.target, Var):
            for subscript in statement.target.subscripts:
                yield from _named(subscript, name)
    elif isinstance(statement, For) and statement.limits is not None:
        for limit in statement.limits:
            yield from _named(limit, name)


def _named(expr: Expr, name: str) -> Iterator[Expr]:
    return (e for e in walk(expr) if _name(e) == name)


def _variables(place: Expr) -> set[str]:
    """The variables in the subscripts of an access."""
    found = place.subscripts if isinstance(place, (Element, Load)) else ()
    inner = [e for subscript in found for e in walk(subscript)]
    if not all(isinstance(e, (Number, Var, Negative, Binary)) for e in inner):
        raise NotApplicableError("a subscript contains more than variables")
    return {e.name for e in inner if isinstance(e, Var)}


def _name(expr: Expr) -> str | None:
    if isinstance(expr, Var):
        return expr.name
    return expr.array if isinstance(expr, (Element, Load, Address)) else None


def _written(
    statement: Statement, name: str, path: tuple[For, ...] = ()
) -> Iterator[tuple[Expr, tuple[For, ...]]]:
    """Accesses that a statement writes, with the loops of the statement around each."""
    if isinstance(statement, For):
        for inner in statement.body if statement.trips and statement.limits is None else ():
            yield from _written(inner, name, (*path, statement))
    elif isinstance(statement, Assign) and _name(statement.target) == name:
        yield statement.target, path


def _value(subscript: Expr, known: Mapping[str, int]) -> int:
    """The value of a subscript when the loop variables have the `known` values."""
    if isinstance(subscript, Number) and subscript.text.isdigit():
        return int(subscript.text)
    if isinstance(subscript, Var) and subscript.name in known:
        return known[subscript.name]
    if isinstance(subscript, Negative):
        return -_value(subscript.value, known)
    if isinstance(subscript, Binary) and subscript.operator in "+-*":
        left, right = _value(subscript.left, known), _value(subscript.right, known)
        if subscript.operator == "*":
            return left * right
        return left + right if subscript.operator == "+" else left - right
    raise NotApplicableError("a subscript contains more than loop variables")


def uses_in(body: tuple[Statement, ...]) -> Counter[str | None]:
    """How often expressions name each variable and array, including targets of assignments."""
    return Counter(map(_name, expressions(body)))


def uses_of(name: str, body: tuple[Statement, ...]) -> int:
    """The same for one variable or array."""
    return sum(_name(e) == name for e in expressions(body))
