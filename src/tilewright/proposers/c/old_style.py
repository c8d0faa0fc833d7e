"""Gives prototypes to functions defined in the style of K&R, `int f(a, b) int a; char *b; {`."""

from __future__ import annotations

import re

from tree_sitter import Node

from tilewright.proposers.c.syntax import declared_name, descendants, parse, text_of

_OLD = re.compile(r"\(\s*\w+(?:\s*,\s*\w+)*\s*\)\s*[A-Za-z_][\w\s*,\[\]]*;")
"""Names in parentheses before a declaration. Only a parser can tell such a definition from other
code."""


def with_prototypes(source: str) -> str:
    """The source with `int f(int a, char *b) {` for each such definition. Line numbers do not
    change.

    A call converts its arguments to the same values in both styles.
    """
    if not _OLD.search(source):
        return source
    data = source.encode()
    for node in reversed([n for n in descendants(parse(source)) if _is_old(n)]):
        names = _names(node)
        types = _types(node)
        listed = ", ".join(types.get(text_of(name), f"int {text_of(name)}") for name in names)
        body = node.child_by_field_name("body")
        assert body is not None
        start, end = names[0].start_byte, body.start_byte
        lines = b"\n" * data[start:end].count(b"\n")
        data = data[:start] + f"{listed}) ".encode() + lines + data[end:]
    return data.decode()


def _is_old(node: Node) -> bool:
    return node.type == "function_definition" and bool(_names(node))


def _names(definition: Node) -> list[Node]:
    """The parameters of a definition that are only names."""
    for node in descendants(definition):
        if node.type == "parameter_list":
            return [n for n in node.named_children if n.type == "identifier"]
    return []


def _types(definition: Node) -> dict[str, str]:
    """The declaration of each parameter, by its name."""
    found = {}
    for node in definition.named_children:
        if node.type == "declaration":
            declarators = node.children_by_field_name("declarator")
            before = [c for c in node.named_children if c.start_byte < declarators[0].start_byte]
            words = [text_of(c) for c in before if text_of(c) != "register"]
            for item in declarators:
                found[declared_name(item)] = " ".join([*words, text_of(item)])
    return found
