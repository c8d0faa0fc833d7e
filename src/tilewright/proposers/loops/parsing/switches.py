"""A `switch` on data as a sequence of tests.

Before::

    switch (k[i]) { case 0: case 2: y[i] = a; break; default: y[i] = b; }

After::

    if (k[i] == 0 || k[i] == 2) y[i] = a; else y[i] = b;
"""

from __future__ import annotations

from functools import lru_cache

from tree_sitter import Node

from tilewright.proposers.c.syntax import descendants, leaves_early, parse, text_of
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    field_of,
    has_effects,
    inside,
)


def as_tests(node: Node) -> Node:
    """The `if` statement, with the same lines. Raises `UnsupportedError`."""
    subject = field_of(node, "condition")
    if has_effects(subject):
        raise UnsupportedError(node, "the value of this switch statement has an effect")
    labels = [n for n in field_of(node, "body").named_children if n.type != "comment"]
    written, tests = "", []
    for number, label in enumerate(labels):
        if label.type != "case_statement":
            raise UnsupportedError(label, "this form of switch statement is not supported")
        value = label.child_by_field_name("value")
        is_last = number == len(labels) - 1
        if value is None and not is_last:
            raise UnsupportedError(label, "a case follows the default of this switch statement")
        tests += [f"{text_of(subject)} == ({text_of(value)})"] if value is not None else []
        found = [n for n in label.named_children if n not in (value,) and n.type != "comment"]
        if not found and not is_last:
            continue
        statements = _without_end(label, found, is_last=is_last)
        test = f"if ({' || '.join(tests)})" if value is not None else ""
        written += f"{' else ' if written else ''}{test} {{"
        for statement in statements:
            written += "\n" * (statement.start_point[0] - node.start_point[0] - written.count("\n"))
            written += text_of(statement)
        written, tests = written + "}", []
    return _parsed(written, node.start_point[0])


def _without_end(label: Node, found: list[Node], *, is_last: bool) -> list[Node]:
    """The statements of a case without its last `break`. Raises `UnsupportedError`."""
    if len(found) == 1 and found[0].type == "compound_statement":
        found = inside(found[0])
    elif any(n.type == "declaration" for n in found):
        raise UnsupportedError(label, "a case declares a variable that other cases can use")
    end = found[-1].type if found else ""
    if end not in ("break_statement", "return_statement") and not is_last:
        raise UnsupportedError(label, "a case continues with the next case")
    statements = found[:-1] if end == "break_statement" else found
    if any(leaves_early(n) for n in statements if n.type != "return_statement"):
        what = "a `break` or `return` under a condition in a case is not supported"
        raise UnsupportedError(label, what)
    return statements


@lru_cache(maxsize=1 << 10)
def _parsed(statement: str, row: int) -> Node:
    """The node of a statement that begins in this row. The cache keeps the nodes of one statement
    the same."""
    root = parse("\n" * row + f"void f(void) {{ {statement} }}")
    return next(n for n in descendants(root) if n.type == "if_statement")
