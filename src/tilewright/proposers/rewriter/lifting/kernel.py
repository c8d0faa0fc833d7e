"""Converts a C file with a kernel function to loop IR.

Macros of the file are expanded, its functions are inlined, and its constants are evaluated.
`lifting.statements` describes the supported contents of the function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from tree_sitter import Node

from tilewright.core.errors import InputError
from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import (
    descendants,
    identifiers,
    parse,
    pointer_levels,
    text_of,
)
from tilewright.proposers.c.unroll_hints import as_attributes, as_pragmas
from tilewright.proposers.nesting_limit import DEEPEST, nested_beyond
from tilewright.proposers.rewriter.c_types import SIZES, array_of
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Array, Kernel, Opaque, walk
from tilewright.proposers.rewriter.lifting.constants import declare_constants, structures
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.statements import Lifter
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled
from tilewright.proposers.rewriter.lifting.values import Reader
from tilewright.proposers.rewriter.machine import Machine

ENTRY = "kernel"


@lru_cache(maxsize=4)
def lift(source: str, machine: Machine) -> Kernel:
    """The kernel function of a C file as IR; `InputError` if there is none or it does not parse.

    Cached, because reading a kernel and raising it both need the result.
    """
    plain = as_attributes(expanded(source, machine.known, machine.macros))
    root = parse(plain)
    _check_depth(root)
    defined = [
        (name, node)
        for node in descendants(root)
        if node.type == "function_definition" and (name := _function_name(node))
    ]
    functions = dict(defined)
    entry = functions.pop(ENTRY, None)
    _check_syntax(root if entry is None else entry)
    if entry is None:
        raise InputError(
            f"the file defines no function {ENTRY!r}. Define `void {ENTRY}(...)` with the "
            "workload's arguments."
        )
    if sum(name == ENTRY for name, _ in defined) > 1:
        raise InputError(f"the file defines {ENTRY!r} more than once. Keep one definition.")
    block = entry.child_by_field_name("body")
    assert block is not None
    pinned: frozenset[str] = frozenset()
    reasons: dict[tuple[int, int], str] = {}
    while True:
        plain_functions = {n: f for n, f in functions.items() if not f.has_error}
        outermost = Scope({}, plain_functions, structures(root))
        declare_constants(root, Reader(machine, outermost))
        reader = Reader(machine, outermost)
        outermost.arrays = {a.name: a for a in (*_own(root, reader), *_arrays(entry, reader))}
        lifter = Lifter(machine, pinned, outermost, reasons)
        body = lifter.function_body(block)
        mentioned = {n for s in walk(body) if isinstance(s, Opaque) for n in s.names}
        missing = (lifter.dropped & mentioned) - pinned
        if not missing:
            break
        pinned |= missing
    before, signature, after = _around(source, plain, entry, block)
    arrays = tuple(outermost.arrays.values())
    words = machine.words if machine.words and machine.words.macro in identifiers(root) else None
    return Kernel(before, signature, arrays, body, after, lifter.names, words)


def _around(source: str, plain: str, entry: Node, block: Node) -> tuple[str, str, str]:
    """The text before and after the kernel, and its declaration, as the author wrote them.

    Expanding macros keeps line numbers. If it changed text on the same lines outside the kernel,
    the expanded text is used.
    """
    data, written = plain.encode(), source.encode()
    rows, written_rows = data.split(b"\n"), written.split(b"\n")
    (first, column), (last, end) = entry.start_point, entry.end_point
    following = len(rows[last]) - end
    same = rows[first][:column] == written_rows[first][:column]
    same &= rows[last][end:] == written_rows[last][len(written_rows[last]) - following :]
    if not same:
        signature = data[entry.start_byte : block.start_byte]
        return (
            as_pragmas(data[: entry.start_byte].decode()),
            signature.decode().rstrip(),
            as_pragmas(data[entry.end_byte :].decode()),
        )
    start = sum(len(row) + 1 for row in written_rows[:first]) + column
    stop = sum(len(row) + 1 for row in written_rows[: last + 1]) - 1 - following
    signature = written[start : written.index(b"{", start)]
    return written[:start].decode(), signature.decode().rstrip(), written[stop:].decode()


def _check_depth(root: Node) -> None:
    """`InputError` with the line if code is nested too deeply to be followed."""
    deep = nested_beyond(root, DEEPEST)
    if deep is not None:
        raise InputError(
            f"the code at line {deep.start_point[0] + 1} nests more than {DEEPEST} levels deep: "
            "split its blocks or expressions into smaller ones."
        )


def _check_syntax(root: Node) -> None:
    """`InputError` with the line of the first syntax error inside."""
    if root.has_error:
        node = next(_errors(root), root)
        raise InputError(
            f"line {node.start_point[0] + 1}: the kernel does not parse as C. Correct the syntax "
            "there."
        )


def _errors(node: Node) -> Iterator[Node]:
    if node.is_error or node.is_missing:
        yield node
    for child in node.children:
        yield from _errors(child)


def _function_name(node: Node) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        declarator = declarator.child_by_field_name("declarator")
    return text_of(declarator) if declarator is not None else ""


def _arrays(entry: Node, reader: Reader) -> Iterator[Array]:
    """The parameters of the kernel that are arrays or pointers."""
    declarator = entry.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    for node in listed.named_children if listed is not None else []:
        kind, inner = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if kind is None or inner is None:
            continue
        name, sizes = pointer_levels(inner)
        if name:
            yield array_of(name, [_size(s, reader) for s in sizes], text_of(kind))


def _own(root: Node, reader: Reader) -> Iterator[Array]:
    """The arrays of numbers that the file declares outside its functions."""
    for node in root.named_children:
        kind = node.child_by_field_name("type")
        if node.type != "declaration" or kind is None or "const" in text_of(node).split():
            continue
        for item in node.children_by_field_name("declarator"):
            target = item.child_by_field_name("declarator") if "init" in item.type else item
            if target is None or target.type != "array_declarator":
                continue
            if any(n.type == "pointer_declarator" for n in descendants(target)):
                continue
            name, sizes = pointer_levels(target)
            found = array_of(name, [_size(s, reader) for s in sizes], text_of(kind))
            if found.element in SIZES and found.shape and all(found.shape):
                yield replace(found, local=True, static=True, outside=True)


def _size(node: Node | None, reader: Reader) -> int | None:
    if node is None:
        return None
    try:
        size = reader.integer(node)
    except NotModelled:
        return None
    return size.const if size.is_const and size != Expr(0) else None
