"""`with`: context managers are objects of the kernel's classes, or generators with
`contextlib.contextmanager`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.classes import Record, special_method
from tilewright.targets.trainium.language.conversion import block, converts, expression
from tilewright.targets.trainium.language.frames import Frame, Function, Statement
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.targets import target_of
from tilewright.targets.trainium.language.values import Builtin

Leave = Callable[[], object]


@dataclass(frozen=True, eq=False)
class GeneratorContext:
    """A generator that yields once: the part before runs first, the part after it at the end."""

    items: KernelIterator


def context_manager() -> Builtin:
    """`contextlib.contextmanager`."""

    def decorate(run: Execution, function: Any) -> Builtin:
        if not isinstance(function, Function):
            raise KernelError("unsupported_operand", "contextmanager takes a function with yield")

        def make(run: Execution, *args: Any, **options: Any) -> GeneratorContext:
            found = function.call(run, args, options)
            if not isinstance(found, KernelIterator):
                raise KernelError("unsupported_operand", f"{function.name} has no yield")
            return GeneratorContext(found)

        return Builtin(function.name, make, masked=False)

    return Builtin("contextlib.contextmanager", decorate)


def entered(node: ast.With) -> Callable[[Frame], Leave]:
    """Enters the contexts of a statement, binds their names, and returns what leaves them.

    An error inside ends the kernel, so they are left only without one.
    """
    parts = [
        (
            expression(item.context_expr),
            None if item.optional_vars is None else target_of(item.optional_vars),
        )
        for item in node.items
    ]
    line = node.lineno

    def enter(frame: Frame) -> Leave:
        leaves: list[Leave] = []
        for value, target in parts:
            found, leave = _enter(frame.run, value(frame), line)
            leaves.append(leave)
            if target is not None:
                target(frame, found)
        return lambda: [leave() for leave in reversed(leaves)]

    return enter


def _enter(run: Execution, manager: Any, line: int) -> tuple[Any, Leave]:
    if isinstance(manager, GeneratorContext):
        for item in manager.items:
            return item, lambda: _finish(manager.items, line)
        raise KernelError("unsupported_operand", "the function of a context yields nothing", line)
    first = special_method(manager, "__enter__")
    last = special_method(manager, "__exit__")
    if first is None or last is None:
        kind = manager.cls.name if isinstance(manager, Record) else type(manager).__name__
        raise KernelError(
            "unsupported_operand", f"with needs __enter__ and __exit__, which a {kind} lacks", line
        )
    return first.call(run, [], {}), lambda: last.call(run, [None, None, None], {})


def _finish(items: KernelIterator, line: int) -> None:
    for _ in items:
        raise KernelError("unsupported_operand", "the function of a context yields twice", line)


@converts(ast.With)
def _with(node: ast.With) -> Statement:
    enter, body = entered(node), block(node.body)

    def execute(frame: Frame) -> int:
        leave = enter(frame)
        signal = body(frame)
        leave()
        return signal

    return execute
