"""The parts of a loop: its test with the position, and its changes after an iteration."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    comma_separated,
    descendants,
    is_skip,
    is_stop,
    leaves_early,
    text_of,
)
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled

_ALWAYS = frozenset(("1", "true"))


@dataclass(frozen=True, slots=True)
class Form:
    """`for (first; test; update) statements`.

    With `leaves`, the loop ends when its test is true. With `last`, the test is after an iteration.
    """

    first: Node | None
    test: Node
    update: Node | None
    statements: list[Node]
    leaves: bool = False
    last: bool = False

    def changes(self) -> list[Node]:
        """The changes that the test itself makes, as in `n--`."""
        return [n for n in descendants(self.test) if n.type == "update_expression"]

    def updates(self) -> list[Node]:
        """The changes after each iteration."""
        return list(comma_separated(self.update)) if self.update is not None else []


def form_of(node: Node) -> Form:
    """The parts of a `for`, `while` or `do`. A `break` at its beginning or end is its test.

    `for (;;) { if (done) break; .. }` tests first, and `for (;;) { ..; if (done) break; }` tests
    last.
    """
    body, test = node.child_by_field_name("body"), node.child_by_field_name("condition")
    if body is None:
        raise NotModelled("a loop has no body")
    first, update = node.child_by_field_name("initializer"), node.child_by_field_name("update")
    statements = body.named_children if body.type == "compound_statement" else [body]
    if test is not None and text_of(test).strip("() ") not in _ALWAYS:
        form = Form(first, test, update, statements, last=node.type == "do_statement")
    else:
        form = _endless(first, update, statements)
    if any(leaves_early(s) and not is_skip(s) for s in form.statements):
        raise NotModelled("a loop may end early, by break, return or goto")
    return form


def never_again(node: Node) -> bool:
    """Whether this is `do { .. } while (0)`."""
    test = node.child_by_field_name("condition")
    return test is not None and text_of(test).strip("() ") in ("0", "false")


def _endless(first: Node | None, update: Node | None, statements: list[Node]) -> Form:
    code = [s for s in statements if s.type != "comment"]
    if code and is_stop(code[0]):
        rest = [s for s in statements if s is not code[0]]
        return Form(first, _test_of(code[0]), update, rest, leaves=True)
    skips = any(is_skip(s) for s in code)  # which would skip the test
    if code and is_stop(code[-1]) and update is None and not skips:
        rest = [s for s in statements if s is not code[-1]]
        return Form(first, _test_of(code[-1]), None, rest, leaves=True, last=True)
    raise NotModelled("a loop has no condition at its start or end")


def _test_of(node: Node) -> Node:
    test = node.child_by_field_name("condition")
    if test is None:
        raise NotModelled("an if statement has no condition")
    return test
