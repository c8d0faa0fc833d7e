"""Executes the statements of a kernel's file.

The modules that convert parts of Python are imported here, which registers these parts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.language import (  # noqa: F401
    assignments,
    contexts,
    definitions,
    displays,
    flow,
    matching,
    operators,
    targets,
    texts,
)
from tilewright.targets.trainium.language.conversion import converts, statement
from tilewright.targets.trainium.language.flow import bound_names
from tilewright.targets.trainium.language.frames import (
    NEXT,
    Frame,
    Statement,
)
from tilewright.targets.trainium.language.imports import imported
from tilewright.targets.trainium.language.values import Missing

_ENDS = ("too_deep", "too_large", "too_long", "assertion_failed")


def module(nodes: Sequence[ast.stmt], frame: Frame) -> None:
    """Execute a file's statements. A name that a statement cannot define is reported missing where
    it is used."""
    for node in nodes:
        frame.run.step()
        try:
            statement(node)(frame)
        except KernelError as error:
            if error.code in _ENDS:
                raise
            frame.run.depth = 0
            if error.code != "import_not_allowed":  # whose error says where the import is
                error.message += f" (line {error.line or node.lineno})"
            for name in bound_names([node]):
                frame.names[name] = Missing(error)


@converts(ast.Import, ast.ImportFrom)
def _import(node: ast.Import | ast.ImportFrom) -> Statement:
    found = imported(node)

    def bind(frame: Frame) -> int:
        frame.names.update(found(frame.run.language))
        return NEXT

    return bind
