"""The modules that kernels can import. Names of other modules may be imported but not used."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.language.library import HELPERS, module
from tilewright.targets.trainium.language.values import Missing, Namespace

Bindings = Callable[[int], Mapping[str, object]]
"""Maps a version of NKI to the names that an import defines."""

_PARTS_OF_NKI = ("nki.", "neuronxcc.nki.")


def imported(node: ast.Import | ast.ImportFrom) -> Bindings:
    """The values that an import defines."""
    if isinstance(node, ast.ImportFrom):
        return lambda language: _from(node, language)
    return lambda language: _modules(node, language)


def _modules(node: ast.Import, language: int) -> Mapping[str, object]:
    found: dict[str, object] = {}
    for item in node.names:
        path = item.name if item.asname else item.name.split(".")[0]
        found[item.asname or path] = _module(path, node.lineno, language)
    return found


def _from(node: ast.ImportFrom, language: int) -> Mapping[str, object]:
    path = "." * node.level + (node.module or "")
    owner = _module(path, node.lineno, language)
    found: dict[str, object] = {}
    for item in node.names:
        name = item.asname or item.name
        if isinstance(owner, Missing):
            if name not in HELPERS:  # those are available without an import
                found[name] = owner
        elif item.name == "*":
            found.update(owner.members)
        else:
            lacking = Missing(not_supported(f"{path}.{item.name}", node.lineno))
            found[name] = owner.members.get(item.name, lacking)
    found.pop("*", None)
    return found


def _module(path: str, line: int, language: int) -> Namespace | Missing:
    try:
        return module(path, language)
    except KeyError:
        if path.startswith(_PARTS_OF_NKI):
            return Missing(not_supported(f"{path} (line {line})"))
        return Missing(
            KernelError(
                "import_not_allowed",
                f"the kernel uses a name that line {line} imports from {path}: a kernel may import "
                "only nki (or neuronxcc.nki) with its submodules, numpy, math, and a few standard "
                "modules such as dataclasses, enum, functools, itertools and typing",
                line,
            )
        )
