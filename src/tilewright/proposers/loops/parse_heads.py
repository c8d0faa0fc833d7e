"""Heads of loops: what repeats while which condition holds, and what ends each iteration.

Before::

    while (i < 64) {
      Y[i] = X[i];
      i++;
    }

Read as::

    for (; i < 64; i++) Y[i] = X[i];
"""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from tilewright.proposers.c.syntax import comma_separated, declared_name, descendants, text_of
from tilewright.proposers.loops.parse_syntax import UnsupportedError, field_of

NO_STEP = "this loop does not end with a step of its variable"


@dataclass(frozen=True, slots=True)
class Head:
    """What repeats: a condition, what ends each iteration, and the statements before that.

    `in_head` is whether what ends an iteration stands in the head.
    """

    node: Node
    condition: Node
    update: tuple[Node, ...]
    body: tuple[Node, ...]
    in_head: bool

    @property
    def declared(self) -> set[str]:
        """Names that the body declares."""
        found = (n for n in self.body if n.type == "declaration")
        return {declared_name(d) for n in found for d in n.children_by_field_name("declarator")}


def head_of(node: Node) -> Head:
    """Of a loop; where its head has no step, that is the last statement of its body."""
    condition = node.child_by_field_name("condition")
    if condition is None:
        raise UnsupportedError(node, "the head of this loop has no condition")
    body = field_of(node, "body")
    inner = body.named_children if body.type == "compound_statement" else [body]
    update = node.child_by_field_name("update")
    if update is not None:
        return Head(node, condition, (*comma_separated(update),), tuple(inner), True)
    inner = [n for n in inner if n.type != "comment"]
    last = inner[-1] if inner else body
    if last.type != "expression_statement" or not last.named_children:
        raise UnsupportedError(node, NO_STEP)
    if any(n.type == "continue_statement" for child in inner for n in descendants(child)):
        raise UnsupportedError(node, "`continue` leaves out the step of this loop")
    steps = (*comma_separated(last.named_children[0]),)
    return Head(node, condition, steps, tuple(inner[:-1]), False)


def updates(part: Node, name: str) -> bool:
    """Whether an expression changes a variable."""
    if part.type == "update_expression":
        return text_of(field_of(part, "argument")) == name
    return part.type == "assignment_expression" and text_of(field_of(part, "left")) == name
