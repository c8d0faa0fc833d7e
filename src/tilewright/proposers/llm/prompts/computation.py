"""What a workload computes, as the target declares it or as a folder's reference says."""

from __future__ import annotations

import ast
from pathlib import Path

from tilewright.core.records import Brief

_LONGEST = 2000


def computation_of(brief: Brief) -> str:
    """One line on what the workload computes; empty if nothing states it.

    For a kernel folder, this is the text with which `reference.py` begins, or that of the function
    `reference`. The file is only parsed.
    """
    known = brief.target.computation(brief.workload)
    source = brief.workload.source
    if known or not Path(source).is_absolute():
        return known
    try:
        tree = ast.parse((Path(source) / "reference.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    texts = [ast.get_docstring(tree), *map(ast.get_docstring, functions)]
    return " ".join(next(filter(None, texts), "").split())[:_LONGEST]
