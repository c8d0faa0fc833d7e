"""`(x) + y` is a sum where x is a variable, and a cast of `+y` where it is a type."""

from __future__ import annotations

import pytest
from tree_sitter import Node

from tilewright.proposers.c.syntax import descendants, parse, text_of


def expression(text: str) -> Node:
    source = f"typedef int kind; void f(int a, int *p) {{ int b[4], c; c = {text}; }}"
    found = [n for n in descendants(parse(source)) if n.type == "assignment_expression"]
    right = found[-1].child_by_field_name("right")
    assert right is not None
    return right


def shape(node: Node) -> str:
    """The expression with every operation in brackets, and casts named."""
    while node.type == "parenthesized_expression":
        node = node.named_children[0]
    if node.type == "binary_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        assert left is not None
        assert right is not None
        assert operator is not None
        return f"[{shape(left)}{text_of(operator)}{shape(right)}]"
    if node.type == "cast_expression":
        value = node.child_by_field_name("value")
        assert value is not None
        return f"cast {shape(value)}"
    return text_of(node).replace(" ", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a) + c * 4", "[a+[c*4]]"),
        ("(b[0]) + (c / 2) * 4 + 1", "[[b[0]+[[c/2]*4]]+1]"),
        ("(a) - (c) - 1", "[[a-c]-1]"),
        ("((a) + (c)) * 2", "[[a+c]*2]"),
        ("2 * (a) + c * 4", "[[2*a]+[c*4]]"),
        ("(p[a]) - c * 4", "[p[a]-[c*4]]"),
        ("(kind) + c * 4", "[cast +c*4]"),
        ("(uint32_t) - c * 4", "[cast -c*4]"),
    ],
)
def test_parentheses_around_a_variable_are_no_cast(text: str, expected: str) -> None:
    assert shape(expression(text)) == expected


def test_lines_stay_where_they_are() -> None:
    source = "int a, c;\nvoid f(void) {\n  c = (a)\n    + c * 4;\n}\n"
    found = [n for n in descendants(parse(source)) if n.type == "binary_expression"]
    assert [n.start_point[0] for n in found] == [2, 3]
