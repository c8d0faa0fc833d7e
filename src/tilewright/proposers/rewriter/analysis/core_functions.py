"""Finds the functions and macros of a file that may issue commands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tree_sitter import Node

from tilewright.proposers.c.syntax import descendants, identifiers, parse
from tilewright.proposers.c.unroll_hints import as_attributes
from tilewright.proposers.rewriter.machine import Machine

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:.*\\\n)*.*)", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ASSEMBLER = frozenset(("asm", "__asm", "__asm__"))


@lru_cache(maxsize=64)
def issuing(around: str, machine: Machine) -> frozenset[str]:
    """Names of the functions and macros in the text around a kernel that may issue commands or
    compute local addresses, because they or what they mention names a command or an address.

    A function whose body cannot be read may do so.
    """
    around = _COMMENT.sub(" ", around)
    named = set(re.findall(r"\w+(?=\s*\()", around))
    mentioned = _mentioned(around)
    for definition in machine.macros:
        name = re.split(r"\W", definition, maxsplit=1)[0]
        mentioned.setdefault(name, _words(definition[len(name) :]))
    commands = {*machine.effects, *(e.name for e in machine.packed), *_ASSEMBLER}
    found = commands | {name for name in named if name not in mentioned}
    while new := {n for n, names in mentioned.items() if n not in found and names & found}:
        found |= new
    return frozenset(found)


def used_by(names: Iterable[str], around: str) -> frozenset[str]:
    """All names that the functions, macros and initial values of variables among some names use,
    directly or in what they call."""
    mentioned = _mentioned(_COMMENT.sub(" ", around))
    found, todo = set[str](), list(names)
    while todo:
        new = mentioned.get(todo.pop(), frozenset()) - found
        found |= new
        todo += new
    return frozenset(found)


def _mentioned(around: str) -> dict[str, frozenset[str]]:
    """The names that each macro, each function and the initial value of each variable of a text
    use."""
    mentioned = {name: _words(text) for name, text in _MACRO.findall(around)}
    for node in descendants(parse(as_attributes(around))):
        is_variable = node.type == "init_declarator" and not _is_in_function(node)
        body = node.child_by_field_name("value" if is_variable else "body")
        declared = node.child_by_field_name("declarator")
        is_function = node.type == "function_definition" and not node.has_error
        if (is_function or is_variable) and body is not None and declared is not None:
            mentioned[next(iter(identifiers(declared)), "")] = frozenset(identifiers(body))
    return mentioned


def _is_in_function(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type != "function_definition":
        above = above.parent
    return above is not None


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))
