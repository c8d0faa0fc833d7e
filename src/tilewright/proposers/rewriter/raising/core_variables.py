"""Which variables the core's code changes, also in the functions that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tree_sitter import Node

from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import (
    declared_name,
    descendants,
    identifiers,
    parameters,
    parse,
    text_of,
)
from tilewright.proposers.c.unroll_hints import as_attributes
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.translation.parts import ENTRY

_TARGETS = {"assignment_expression": "left", "update_expression": "argument"}
_PARTS = {
    "init_declarator": "declarator",
    "array_declarator": "declarator",
    "subscript_expression": "argument",
}
"""The part of an expression or declarator that names what it stands for."""
_GROUPS = ("struct_specifier", "union_specifier")


@lru_cache(maxsize=64)
def changed_by(source: str, machine: Machine) -> frozenset[str]:
    """The variables of the kernel and of the file that a kernel's statements may change.

    These are also the ones whose address is taken, and arrays and pointers that are only named,
    unless they are constant. Variables that are declared in a block of the kernel, or in a function
    and are not static, are not among them.
    """
    plain = expanded(source, machine.known, (*machine.macros, *machine.unpacked))
    root = parse(as_attributes(plain))
    if root.has_error:
        raise NotRaised("the core's code does not parse as C")
    bodies: dict[str, Node] = {}
    initial: dict[str, Node] = {}
    indirect, defined = set[str](), set[str]()
    for node in descendants(root):
        if node.type == "function_definition" and (inner := node.child_by_field_name("declarator")):
            bodies[next(identifiers(inner), "")] = node
        elif node.type == "type_definition":
            defined |= _types(node)
        elif node.type == "declaration":
            for name, declarator in _declared(node):
                kinds = {n.type for n in _outside_of_value(declarator)}
                is_plain = not kinds & {"array_declarator", "pointer_declarator"}
                of = node.child_by_field_name("type")
                if of is not None and (of.type in _GROUPS or text_of(of) in defined):
                    is_plain = False
                if not is_plain and not _is_constant(node):
                    indirect.add(name)
                if node.parent == root:
                    initial[name] = declarator
    found, seen, todo = set[str](), set[str](), [ENTRY]
    while todo:
        name = todo.pop()
        start = bodies.get(name) or initial.get(name)
        if start is None or name in seen:
            continue
        seen.add(name)
        names = [n for n in descendants(start) if n.type == "identifier"]
        todo += [text_of(n) for n in names]
        for one in names:
            is_changed = text_of(one) in indirect or _is_target(one)
            is_code = start.type == "function_definition"
            if is_changed and is_code and not _is_inner(one, start, name):
                found.add(text_of(one))
    return frozenset(found)


def declared_in(text: str, *, lasting: bool) -> frozenset[str]:
    """The variables that a text declares outside of blocks: those that exist until the end of the
    kernel, or with `lasting` also those that exist until the end of the program."""
    return frozenset(
        name
        for node in parse(as_attributes(text)).named_children
        if node.type == "declaration" and (lasting or not _is_lasting(node))
        for name, _ in _declared(node)
    )


def _is_lasting(declaration: Node) -> bool:
    return any(
        n.type == "storage_class_specifier" and text_of(n) in ("static", "extern")
        for n in declaration.named_children
    )


def _is_target(name: Node) -> bool:
    """Whether a name stands for what an expression changes, or for whose address it takes."""
    child, above = name, name.parent
    while above is not None:
        if above.type in _PARTS and child != above.child_by_field_name(_PARTS[above.type]):
            return False
        if above.type == "declaration":
            return True
        if above.type == "pointer_expression" and text_of(above).startswith("&"):
            return True
        if above.type in _TARGETS:
            if child == above.child_by_field_name(_TARGETS[above.type]):
                return True
        elif above.type.endswith("_statement") or above.type == "call_expression":
            return False
        child, above = above, above.parent
    return False


def _is_inner(name: Node, function: Node, function_name: str) -> bool:
    """Whether a name is of a variable that ceases to exist at the end of a block of the kernel, or
    of another function."""
    wanted = text_of(name)
    above = name.parent
    body = function.child_by_field_name("body")
    while above is not None and above != function:
        if above == body and function_name == ENTRY:
            return False
        for node in above.named_children:
            if node.type == "declaration" and node.start_byte <= name.start_byte:
                for declared, _ in _declared(node):
                    if declared == wanted:
                        return not _is_lasting(node)
        above = above.parent
    return function_name != ENTRY and wanted in {n for n, _, _ in parameters(function)}


def _types(node: Node) -> set[str]:
    """The names of the types that a type definition mentions or defines."""
    return {text_of(n) for n in descendants(node) if n.type == "type_identifier"}


def _declared(node: Node) -> Iterator[tuple[str, Node]]:
    """The variables that a declaration declares, and their declarators."""
    return ((declared_name(d), d) for d in node.children_by_field_name("declarator"))


def _outside_of_value(declarator: Node) -> Iterator[Node]:
    """The nodes of a declarator without its initial value."""
    if declarator.type == "init_declarator":
        declarator = declarator.child_by_field_name("declarator") or declarator
    yield from descendants(declarator)


def _is_constant(node: Node) -> bool:
    return any(c.type == "type_qualifier" and text_of(c) == "const" for c in node.named_children)
