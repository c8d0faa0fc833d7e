"""Reads loops with a known number of iterations that a condition on data may end earlier.

Before::

    for (i = 0; i < 64; i++) {
      if (re * re + im * im > 4.0f) break;
      ...
    }

Read as::

    int going = 1;
    int i_end = 64;
    for (int i = 0; i < 64; i++) {
      i_end = going && re * re + im * im > 4.0f ? i : i_end;
      going = going && re * re + im * im > 4.0f ? 0 : going;
      ...    (each assignment only where `going` is true)
    }

A loop with two conditions, such as `while (i < 64 && x > 1.0f)`, is read in the same way. The rest
of the iterations does nothing, so that several iterations of a loop around can run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import may_break, text_of
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Number,
    Select,
    Statement,
    Type,
    Var,
)
from tilewright.proposers.loops.parsing.arithmetic import converted, printed
from tilewright.proposers.loops.parsing.data_loops import DataLoops
from tilewright.proposers.loops.parsing.declarations import all_of, zero
from tilewright.proposers.loops.parsing.heads import Head, Test, test_of, updates, value_of
from tilewright.proposers.loops.parsing.scope import Place, Value, Variable
from tilewright.proposers.loops.parsing.statements import runs_once
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    bare,
    field_of,
    operator_of,
)


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """What is read in a loop that may end early.

    `going` is the variable that says whether the loop has not ended yet, `at` the variable for the
    value of the loop's variable `name` after the loop. The loop runs only while the condition
    `also` is true, too; `last` says whether it is tested after each iteration. It is tested only
    where the condition `before` it is true, which may change the variable.
    """

    going: Var
    at: Var
    name: str
    also: Node | None
    before: Node | None
    last: bool


@dataclass(frozen=True, slots=True)
class EarlyReturn:
    """The variables of a function that may return anywhere: whether it is still `going`, and its
    `result`, which a function that returns nothing does not have."""

    going: Var
    result: Variable | None


class EarlyEnds(DataLoops):
    """Reads `break`, conditions of loops that test data, and `return` in inner statements."""

    def __init__(self) -> None:
        super().__init__()
        self._early: EarlyEnd | None = None
        self._result: EarlyReturn | None = None

    @contextmanager
    def _returning(self, to: EarlyReturn | None) -> Iterator[None]:
        """Each `return` that is read here belongs to one function."""
        outer, self._result = self._result, to
        with self._ending(None):
            yield
        self._result = outer

    def returned_early(self, nodes: Sequence[Node], kind: Type | None) -> Value | None:
        """The value of the statements of a function that may return anywhere. The rest of them
        then does nothing."""
        result = None
        if kind is not None:
            self.declare("result", kind, zero(kind))
            found = self.scope.find("result")
            assert isinstance(found, Variable)
            result = found
        going = Var(self.printed_name("going"))
        self._done.append(Declare("int", going.name, (), Number("1")))
        with self._returning(EarlyReturn(going, result)), self._inner(), self._under(going):
            self.statements(nodes)
        return None if result is None else Value(Var(result.name), result.type)

    def _return(self, node: Node, to: EarlyReturn) -> None:
        """The function returns here, if the conditions around are true."""
        given, ends = value_of(node), all_of(self._guards)
        if given is not None and to.result is None:
            self.effects(given)
        elif given is not None and to.result is not None:
            value = converted(node, self.value(given), to.result.type)
            chosen = Select(ends, printed(value), Var(to.result.name))
            self._done.append(Assign(Var(to.result.name), chosen))
        self._done.append(Assign(to.going, Select(ends, Number("0"), to.going)))

    @contextmanager
    def _ending(self, end: EarlyEnd | None) -> Iterator[None]:
        """Each `break` that is read here belongs to one loop."""
        outer, self._early = self._early, end
        yield
        self._early = outer

    def statement(self, node: Node) -> None:
        """One statement. Raises `UnsupportedError`."""
        if node.type == "break_statement" and self._early is not None:
            self._leave(node)
        elif node.type == "return_statement" and self._result is not None:
            self._return(node, self._result)
        elif runs_once(node):
            with self._ending(None):  # a `break` inside ends this statement only
                super().statement(node)
        else:
            super().statement(node)

    def _leave(self, node: Node) -> None:
        """The loop ends here, if the conditions around are true."""
        assert self._early is not None
        if self._rehearsing:
            return
        here = self.scope.find(self._early.name)
        if not isinstance(here, Value):
            raise UnsupportedError(node, f"a `break` ends a loop over {self._early.name}")
        ends = all_of(self._guards)
        at, going = self._early.at, self._early.going
        self._done.append(Assign(at, Select(ends, printed(here), at)))
        self._done.append(Assign(going, Select(ends, Number("0"), going)))

    def _iteration(self, body: Sequence[Node]) -> None:
        with self._inner():
            end = self._early
            if end is None:
                self.statements(body)
                return
            if end.also is not None and not end.last:
                self._test(end, end.also)
            waiting: list[Node] = []
            for node in body:
                if any(updates(n, end.name) for n in node.named_children):
                    self._while_going(end, waiting)
                    waiting = []
                    self.statement(node)  # nothing reads the variable after the loop has ended
                else:
                    waiting.append(node)
            self._while_going(end, waiting)
            if end.also is not None and end.last:
                self._test_last(end, end.also)

    def _while_going(self, end: EarlyEnd, nodes: Sequence[Node]) -> None:
        with self._under(end.going):
            self.statements(nodes)

    def _test(self, end: EarlyEnd, also: Node) -> None:
        """End the loop here unless a condition is true."""
        with self._under(end.going):
            test = printed(self.value(also))
            with self._under(Binary("==", test, Number("0"))):
                self._leave(also)

    def _test_last(self, end: EarlyEnd, also: Node) -> None:
        """Test the condition of a `do` loop after an iteration, and after a step in the condition
        `before`."""
        if end.before is None:
            self._test(end, also)
            return
        here = self.scope.find(end.name)
        assert here is not None
        reached = printed(self.value(end.before))
        self.complete()  # the variable has changed when the other side is tested
        with self._under(reached):
            self._test(end, also)
        self.scope.rebind(end.name, here)

    def _early_end(self, head: Head, changing: frozenset[str]) -> tuple[Head, EarlyEnd | None]:
        """The head of a loop without conditions on data, and how these end the loop."""
        also = before = None
        condition = bare(head.condition)
        both = condition.type == "binary_expression" and operator_of(condition) == "&&"
        if both and not head.ends:
            head, also = _counting(head, condition, changing)
            before = head.condition if also == field_of(condition, "right") else None
        if also is None and not any(map(may_break, head.body)):
            return head, None
        name = text_of(test_of(head, changing).variable)
        going, at = (Var(self.printed_name(word)) for word in ("going", f"{name}_end"))
        return head, EarlyEnd(going, at, name, also, before, head.tested_last)

    def _before(
        self, node: Node, end: EarlyEnd, start: Value | Place, last: Value
    ) -> list[Statement]:
        """The variables of a loop that may end early, if its own variable would be `last` after
        the loop."""
        if not isinstance(start, Value):
            raise UnsupportedError(node, f"a loop over the pointer {end.name} may end early")
        return [
            Declare("int", end.going.name, (), Number("1")),
            Declare(start.type, end.at.name, (), printed(last)),
        ]


def _counting(head: Head, condition: Node, changing: frozenset[str]) -> tuple[Head, Node | None]:
    """The head with the side of `&&` that counts iterations, and the other side.

    If both sides may count, it is the one whose variable the head or the side itself changes, and
    then the one without `!=`. A step in the right side does not happen in each iteration.
    """
    found: list[tuple[bool, bool, Head, Node]] = []
    sides = [field_of(condition, side) for side in ("left", "right")]
    for side, other in (sides, sides[::-1]):
        here = replace(head, condition=side)
        try:
            test = test_of(here, changing)
        except UnsupportedError:
            continue
        if test.step is None or side is sides[0]:
            found.append((not _counts(head, test), test.sign == "!=", here, other))
    if not found:
        return head, None
    _, _, here, other = min(found, key=lambda one: one[:2])
    return here, other


def _counts(head: Head, test: Test) -> bool:
    """Whether the head changes the variable of a test."""
    return test.step is not None or any(updates(n, text_of(test.variable)) for n in head.update)
