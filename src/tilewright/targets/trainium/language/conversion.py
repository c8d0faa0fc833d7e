"""Converts parts of a kernel's syntax tree to functions of a frame.

Parts of Python contain each other, so this module only keeps, for each kind of node, the function
that converts it. The modules that convert nodes register their functions with `converts`; they are
all imported by `statements`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.language.frames import NEXT, Expression, Frame, Statement

Converter = TypeVar("Converter", bound=Callable[..., Any])
_CONVERTERS: dict[type[ast.AST], Callable[[Any], Any]] = {}


def converts(*kinds: type[ast.AST]) -> Callable[[Converter], Converter]:
    """Registers a function that converts nodes of these kinds."""

    def register(function: Converter) -> Converter:
        for kind in kinds:
            _CONVERTERS[kind] = function
        return function

    return register


def expression(node: ast.expr) -> Expression:
    """The function that computes an expression. `KernelError` if it is not supported."""
    translate = _CONVERTERS.get(type(node))
    if translate is None:
        raise not_supported(_EXPRESSIONS.get(type(node), type(node).__name__), node.lineno)
    found: Expression = translate(node)
    return found


def statement(node: ast.stmt) -> Statement:
    """The function that executes a statement. An unsupported statement fails when it is reached.

    A file may contain code that never runs in a kernel: references, tests, a command line.
    """
    translate = _CONVERTERS.get(type(node))
    try:
        if translate is None:
            name = _STATEMENTS.get(type(node), type(node).__name__)
            raise not_supported(f"{name} in a kernel", node.lineno)
        found: Statement = translate(node)
    except KernelError as error:
        refused = error
    else:
        return found

    def refuse(frame: Frame) -> int:
        raise KernelError(refused.code, refused.message, refused.line, refused.kind)

    return refuse


def block(nodes: Sequence[ast.stmt]) -> Statement:
    """Executes statements one after another."""
    steps = [statement(node) for node in nodes]
    count = len(steps)

    def run_all(frame: Frame) -> int:
        frame.run.step(count)
        for step in steps:
            signal = step(frame)
            if signal:
                return signal
        return NEXT

    return run_all


_STATEMENTS: dict[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "async", ast.AsyncFor: "async", ast.AsyncWith: "async",
}  # fmt: skip
"""What messages call statements that are not supported."""
_EXPRESSIONS: dict[type[ast.AST], str] = {
    ast.Await: "await", ast.Yield: "yield here", ast.YieldFrom: "yield here",
    ast.Starred: "* here",
}  # fmt: skip


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Statements and all of their parts, without those of functions and classes inside of them,
    which have names of their own."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
