"""What a workload computes, as the target declares it or as a folder's reference says."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

from tilewright.core.records import Brief

_LONGEST = 2000


def computation_of(brief: Brief) -> str:
    """What the workload computes, as part of a list; empty if nothing states it.

    For a kernel folder, this is the text with which `reference.py` begins, or that of the function
    `reference`, or else the function itself, unless it is long. The file is only parsed.
    """
    known = brief.target.computation(brief.workload)
    source = brief.workload.source
    if known or not Path(source).is_absolute():
        return known
    try:
        text = (Path(source) / "reference.py").read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    texts = [ast.get_docstring(tree), *map(ast.get_docstring, functions)]
    said = " ".join(next(filter(None, texts), "").split())[:_LONGEST]
    if said or not functions:
        return said
    code = ast.get_source_segment(text, functions[-1]) or ""
    fenced = indent(f"```python\n{code}\n```", "  ")
    return f"the results of this function\n\n{fenced}\n" if len(code) <= _LONGEST else ""
