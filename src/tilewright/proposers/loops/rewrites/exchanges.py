"""Write conditional exchanges as minima and maxima, which are one instruction each.

Before, as `if (a > b) { t = a; a = b; b = t; }` is read::

    int holds = a > b;
    float t = a;
    a = holds ? b : a;
    b = holds ? t : b;

After::

    float t = a;
    a = a > b ? b : a;
    b = t > b ? t : b;

Each condition compares the same two values as before, also if one of them is not a number.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import touched_by
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Number,
    Select,
    Statement,
    Var,
    changed,
    expressions,
    loops,
    statements,
    walk,
    with_loop,
)

_ZEROS = (Number("0"), Number("0.0f"))


def with_extremes(kernel: Kernel, number: int) -> Kernel:
    """The kernel with minima and maxima in loop `number`; the same one if it has no exchanges."""
    loop = loops(kernel)[number]
    body = _block(loop.body)
    return kernel if body == loop.body else with_loop(kernel, number, (replace(loop, body=body),))


def _block(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements of a block, in which the results of comparisons that are not used any more are
    left out."""
    block = _Block(body)
    made = tuple(block.statement(s) for s in body)
    used = {e.name for e in expressions(made) if isinstance(e, Var)}
    return tuple(
        s
        for s in made
        if not (isinstance(s, Declare) and s.name in block.replaced and s.name not in used)
    )


class _Block:
    """What is known of the values at a place in a block."""

    def __init__(self, body: tuple[Statement, ...]) -> None:
        self.replaced: set[str] = set()
        """Results of comparisons that were replaced by the comparisons."""
        self._body = body
        self._tests: dict[str, Binary] = {}
        """The comparison of each such result, on variables that still have the same values."""
        self._copies: dict[Var, Expr] = {}

    def statement(self, statement: Statement) -> Statement:
        """The statement after the change."""
        if isinstance(statement, For):
            statement = replace(statement, body=_block(statement.body))
        elif isinstance(statement, Declare):
            statement = self._declared(statement)
        elif isinstance(statement, Assign):
            statement = self._assigned(statement)
        self._forget(statement)
        if isinstance(statement, Declare) and not statement.sizes:
            value = statement.value
            if isinstance(value, Binary) and _is_test(value) and statement.type in ("int", "_Bool"):
                self._tests[statement.name] = value
            elif isinstance(value, (Var, Element)):
                self._copies[Var(statement.name)] = value
        return statement

    def _declared(self, declared: Declare) -> Declare:
        """A variable that is not used where the condition fails gets its value in any case."""
        value = declared.value
        test = self._test_of(value)
        if test is None or not isinstance(value, Select) or value.other not in _ZEROS:
            return declared
        if value.value not in (test.left, test.right):  # these two are read in any case
            return declared
        here = Var(declared.name)
        if any(
            isinstance(s, Assign) and s.target == value.condition for s in statements(self._body)
        ):
            return declared
        found = list(expressions(self._body))
        selects = [e for e in found if isinstance(e, Select) and e.condition == value.condition]
        only_there = found.count(here) == sum(s.value == here for s in selects)
        return replace(declared, value=value.value) if only_there else declared

    def _assigned(self, assign: Assign) -> Assign:
        value = assign.value
        test = self._test_of(value)
        if test is None or not isinstance(value, Select):
            return assign
        sides = (test.left, test.right)
        if (value.value, value.other) not in (sides, sides[::-1]):
            return assign
        assert isinstance(value.condition, Var)
        self.replaced.add(value.condition.name)
        return Assign(assign.target, replace(value, condition=test))

    def _test_of(self, value: Expr | None) -> Binary | None:
        if isinstance(value, Select) and isinstance(value.condition, Var):
            return self._tests.get(value.condition.name)
        return None

    def _forget(self, statement: Statement) -> None:
        """Comparisons use copies of values that a statement changes, and are forgotten if there are
        none."""
        touched = touched_by((statement,))
        before: dict[Expr, Expr] = {}
        if isinstance(statement, Assign):
            before = {v: copy for copy, v in self._copies.items() if v == statement.target}
        for name, test in [*self._tests.items()]:
            kept = changed(test, lambda e: before.get(e, e))
            assert isinstance(kept, Binary)
            self._tests[name] = kept
            if name in touched or _names(kept) & touched:
                del self._tests[name]
        for copy, value in [*self._copies.items()]:
            if copy.name in touched or _names(value) & touched:
                del self._copies[copy]


def _is_test(value: Binary) -> bool:
    """Whether a value compares two variables or elements."""
    sides = (value.left, value.right)
    return value.operator in ("<", ">") and all(isinstance(s, (Var, Element)) for s in sides)


def _names(value: Expr) -> set[str]:
    """The variables and arrays that a value reads."""
    parts = [e for e in walk(value) if isinstance(e, (Var, Element))]
    return {e.name if isinstance(e, Var) else e.array for e in parts}
