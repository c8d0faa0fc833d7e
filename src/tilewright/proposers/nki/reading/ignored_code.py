"""Finds the parts of a source that the rewriter never reads, for any sizes of the kernel's
arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.core.records import LeftAlone
from tilewright.proposers.nki.reading.expressions import MODULES
from tilewright.proposers.nki.reading.signatures import SIGNATURES

_NO_INSTRUCTIONS = ("get_nc_version",)
"""Functions of the module of instructions that return properties of the machine."""


def unread(source: str) -> list[LeftAlone]:
    """The lines because of which a kernel cannot be read, in order, each once, with the reason."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        return [LeftAlone(line, _text(source, line), "this is not valid Python")]
    found = dict(_reasons(tree))
    return [LeftAlone(n, _text(source, n), found[n]) for n in sorted(found)]


def _reasons(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Instructions within functions that are not understood."""
    instructions = _aliases(tree)
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, name = ast.unparse(node.func.value), node.func.attr
                if owner in instructions and name not in (*SIGNATURES, *_NO_INSTRUCTIONS):
                    yield node.lineno, f"{owner}.{name} is not understood"


def _aliases(tree: ast.Module) -> set[str]:
    """The names under which a file imports the module of instructions."""
    found = {name for name, short in MODULES.items() if short == "nisa"}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {a.asname for a in node.names if a.asname and _is_isa(a.name)}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                alias.asname or alias.name
                for alias in node.names
                if _is_isa(f"{node.module}.{alias.name}")
            }
    return found


def _is_isa(path: str) -> bool:
    """Whether a path names the module of instructions, in either version."""
    return MODULES.get(path.removeprefix("neuronxcc.")) == "nisa"


def _text(source: str, line: int) -> str:
    lines = source.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
