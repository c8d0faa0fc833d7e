"""Parses C, and answers questions about syntax trees that do not depend on values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tree_sitter_c
from tree_sitter import Language, Node, Parser, Query, QueryCursor


@cache
def _language() -> Language:
    return Language(tree_sitter_c.language())


@cache
def _parser() -> Parser:
    return Parser(_language())


@cache
def _query(pattern: str) -> Query:
    return Query(_language(), pattern)


_CASTS = "(cast_expression type: (type_descriptor type: (type_identifier) @name)) @cast"
_DECLARED = """[
  (declaration declarator: (identifier) @name) (init_declarator declarator: (identifier) @name)
  (parameter_declaration declarator: (identifier) @name)
  (pointer_declarator declarator: (identifier) @name)
  (array_declarator declarator: (identifier) @name)
  (function_declarator declarator: (identifier) @name)
  (attributed_declarator (identifier) @name) (enumerator name: (identifier) @name)
]"""


def parse(source: str) -> Node:
    """The syntax tree of a file.

    `(x) + y` is a sum if the file declares a variable `x`. The grammar, which does not know the
    meaning of names, parses this as a cast of `+y`. Such parentheses are removed, and the file is
    parsed again.
    """
    text = source.encode()
    root = _parser().parse(text).root_node
    while needless := list(_around_variables(root)):
        changed = bytearray(text)
        for start, end in needless:
            changed[start : start + 1] = changed[end : end + 1] = b" "
        text = bytes(changed)
        root = _parser().parse(text).root_node
    return root


def _around_variables(root: Node) -> Iterator[tuple[int, int]]:
    """Places of the parentheses of casts whose type is in fact a variable."""
    casts = QueryCursor(_query(_CASTS)).matches(root)
    if not casts:
        return
    declared = {*declared_names(root)}
    for _, found in casts:
        if text_of(found["name"][0]) in declared:
            marks = [c for c in found["cast"][0].children if c.type in ("(", ")")]
            yield marks[0].start_byte, marks[1].start_byte


def declared_names(root: Node) -> list[str]:
    """The names of variables, parameters, functions and constants, as often as each is declared."""
    return [text_of(n) for n in QueryCursor(_query(_DECLARED)).captures(root).get("name", [])]


def pointer_levels(node: Node) -> tuple[str, list[Node | None]]:
    """A declarator's name, and the sizes of the type to which it points; None for a size that is
    not given.
    """
    sizes: list[Node | None] = []
    current: Node | None = node
    while current is not None:
        if current.type == "array_declarator":
            sizes.insert(0, current.child_by_field_name("size"))
        elif current.type == "pointer_declarator":
            sizes.insert(0, None)
        elif current.type == "identifier":
            return text_of(current), sizes
        inner = current.child_by_field_name("declarator")
        if inner is None and current.type == "parenthesized_declarator":
            inner = current.named_children[0]
        current = inner
    return "", sizes


def declared_name(item: Node) -> str:
    """The name a declarator declares."""
    return pointer_levels(item)[0]


def parameters(function: Node) -> Iterator[tuple[str, list[Node | None], str]]:
    """A function's parameters as `pointer_levels` gives them, and their types."""
    for node in descendants(function):
        if node.type == "parameter_list":
            for parameter in node.named_children:
                declarator = parameter.child_by_field_name("declarator")
                kind = parameter.child_by_field_name("type")
                if declarator is not None and kind is not None:
                    yield (*pointer_levels(declarator), text_of(kind))
            return


def descendants(node: Node) -> Iterator[Node]:
    """A node and all named nodes below it, in textual order."""
    waiting = [node]  # no recursion: each level of it would pass on every node
    while waiting:
        following = waiting.pop()
        yield following
        waiting.extend(reversed(following.named_children))


def calls(node: Node) -> Iterator[Node]:
    """All calls of functions in a node."""
    return (n for n in descendants(node) if n.type == "call_expression")


def comma_separated(node: Node) -> Iterator[Node]:
    """The parts of `a, b, c`."""
    if node.type == "comma_expression":
        for child in node.named_children:
            yield from comma_separated(child)
    elif node.type != "comment":
        yield node


def assigned(node: Node, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """Variables that a statement or expression changes, or whose address it takes. For a `for`
    loop, the variables that its head declares are not included. `known` caches the results for the
    nodes of one tree.
    """
    found = known.get(node.id)
    if found is None:
        parts = node.named_children
        if node.type == "call_expression" and without_pointers(parts[0]).type == "identifier":
            parts = parts[1:]  # `(*f)(x)` calls a function through f and does not change f
        found = frozenset(_targets(node)).union(*(assigned(c, known) for c in parts))
        first = node.child_by_field_name("initializer") if node.type == "for_statement" else None
        if first is not None and first.type == "declaration":
            found -= {declared_name(i) for i in first.children_by_field_name("declarator")}
        known[node.id] = found
    return found


def without_pointers(node: Node) -> Node:
    """An expression without the `*`, `&` and parentheses around it."""
    while node.type in ("parenthesized_expression", "pointer_expression"):
        node = node.child_by_field_name("argument") or node.named_children[0]
    return node


def _targets(node: Node) -> Iterator[str]:
    target = None
    if node.type == "assignment_expression":
        target = node.child_by_field_name("left")
    elif node.type in ("update_expression", "pointer_expression"):
        target = node.child_by_field_name("argument")
    while target is not None and target.type in ("field_expression", "parenthesized_expression"):
        target = target.child_by_field_name("argument") or target.named_children[0]
    if target is not None and target.type == "identifier":
        yield text_of(target)


_ENDS = ("break_statement", "continue_statement", "return_statement")
LOOPS = ("for_statement", "while_statement", "do_statement")
"""All kinds of loops."""

TELLS = frozenset(("assert", "__builtin_assume", "__builtin_unreachable"))
"""Calls that only state an assumption for the compiler, or test it."""


def has_no_effect(node: Node) -> bool:
    """Whether an expression changes nothing, so that it may be left out if nothing needs it."""
    changing = ("assignment_expression", "update_expression")
    for inner in descendants(node):
        function = inner.child_by_field_name("function")
        if inner.type in changing or (function is not None and text_of(function) not in TELLS):
            return False
    return True


def leaves_early(node: Node) -> bool:
    """Whether a statement may leave the enclosing code. Leaving a loop inside the statement does
    not count.
    """
    text = node.text or b""
    if not any(word in text for word in (b"break", b"continue", b"return")):
        return False
    if node.type in LOOPS:
        return any(n.type == "return_statement" for n in descendants(node))
    if node.type == "switch_statement":  # here, a break ends the switch
        return any(n.type in ("return_statement", "continue_statement") for n in descendants(node))
    return node.type in _ENDS or any(leaves_early(child) for child in node.named_children)


def is_skip(node: Node) -> bool:
    """Whether a statement is `if (..) continue;`."""
    return _does_only(node, "continue_statement")


def may_continue(node: Node) -> bool:
    """Whether a statement contains a `continue` of the enclosing loop."""
    if b"continue" not in (node.text or b"") or node.type in LOOPS:
        return False
    return node.type == "continue_statement" or any(map(may_continue, node.named_children))


def may_break(node: Node) -> bool:
    """Whether a statement contains a `break` of the enclosing loop."""
    if node.type == "switch_statement" or node.type in LOOPS:
        return False
    return node.type == "break_statement" or any(map(may_break, node.named_children))


def is_stop(node: Node) -> bool:
    """Whether a statement is `if (..) break;`."""
    return _does_only(node, "break_statement")


def _does_only(node: Node, kind: str) -> bool:
    body = node.child_by_field_name("consequence") if node.type == "if_statement" else None
    if body is None or node.child_by_field_name("alternative") is not None:
        return False
    inner = body.named_children if body.type == "compound_statement" else [body]
    return [n.type for n in inner if n.type != "comment"] == [kind]


def jumped_over(children: list[Node]) -> list[Node]:
    """The statements from the first to the last one that contains a `goto` or a label."""
    odd = [
        number
        for number, child in enumerate(children)
        if b"goto" in (child.text or b"") or b":" in (child.text or b"")
        if any(n.type in ("goto_statement", "labeled_statement") for n in descendants(child))
    ]
    return children[odd[0] : odd[-1] + 1] if odd else []


def comment_lines(node: Node) -> list[str]:
    """The lines of a comment without its marks."""
    text = text_of(node)
    text = text[2:-2] if text.startswith("/*") else text[2:]
    return [line for line in (raw.strip().lstrip("*").strip() for raw in text.splitlines()) if line]


def identifiers(node: Node) -> Iterator[str]:
    """Every identifier a node mentions."""
    return (text_of(n) for n in descendants(node) if n.type == "identifier")


def text_of(node: Node) -> str:
    """Source text of a node."""
    return node.text.decode() if node.text is not None else ""
