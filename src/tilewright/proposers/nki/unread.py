"""What of a source the rewriter never reads, whatever the sizes of the kernel's arguments are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewright.core.records import LeftAlone
from tilewright.proposers.nki.expressions import MODULES
from tilewright.proposers.nki.signatures import SIGNATURES

OLD = "kernels of NKI 1 are not read; write it in NKI 2 (import nki)"
_STATEMENTS = (
    ast.While, ast.With, ast.Try, ast.ClassDef, ast.AsyncFunctionDef, ast.Raise, ast.Match,
)  # fmt: skip


def unread(source: str) -> list[LeftAlone]:
    """The lines that keep a kernel from being read, in order, each once, with the reason."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        return [LeftAlone(line, _text(source, line), "this is no Python")]
    old = [node.lineno for node in tree.body if is_old(node)]
    found = dict.fromkeys(old[:1], OLD) or dict(_reasons(tree))
    return [LeftAlone(n, _text(source, n), found[n]) for n in sorted(found)]


def is_old(node: ast.stmt) -> bool:
    """Whether a statement imports NKI 1."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.partition(".")[0] == "neuronxcc" for name in names)


def _reasons(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Statements and instructions within functions that are not understood."""
    instructions = _aliases(tree)
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, _STATEMENTS):
                yield node.lineno, f"`{type(node).__name__.lower()}` is not understood"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, name = ast.unparse(node.func.value), node.func.attr
                if owner in instructions and name not in SIGNATURES:
                    yield node.lineno, f"{owner}.{name} is not understood"


def _aliases(tree: ast.Module) -> set[str]:
    """The names under which a file uses the module of instructions."""
    found = {name for name, short in MODULES.items() if short == "nisa"}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {a.asname for a in node.names if a.asname and MODULES.get(a.name) == "nisa"}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                alias.asname or alias.name
                for alias in node.names
                if MODULES.get(f"{node.module}.{alias.name}") == "nisa"
            }
    return found


def _text(source: str, line: int) -> str:
    lines = source.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
