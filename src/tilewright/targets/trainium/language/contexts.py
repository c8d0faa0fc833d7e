"""`with`: context managers are objects of the kernel's classes, or generators with
`contextlib.contextmanager`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import Record, Wrapped, special_method
from tilewright.targets.trainium.language.conversion import block, converts, expression
from tilewright.targets.trainium.language.exceptions import Position, Raised
from tilewright.targets.trainium.language.frames import Frame, Function, Statement
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.targets import target_of
from tilewright.targets.trainium.language.values import Builtin, Namespace

Leave = Callable[[], object]


@dataclass(frozen=True, eq=False)
class GeneratorContext:
    """A generator that yields once: the part before runs first, the part after it at the end."""

    items: KernelIterator


@dataclass(frozen=True, eq=False)
class PlainContext:
    """`contextlib.nullcontext(value)`."""

    value: Any


class ContextStack(Namespace):
    """`contextlib.ExitStack`: contexts that a kernel enters one by one."""

    def __init__(self) -> None:
        self._leaves: list[Leave] = []
        super().__init__("ExitStack", {
            "enter_context": Builtin("enter_context", self._enter),
            "callback": Builtin("callback", self._call_later, masked=False),
            "close": Builtin("close", lambda run: self.leave()),
        })  # fmt: skip

    def _enter(self, run: Execution, manager: Any) -> Any:
        found, leave = _enter(run, manager, run.line)
        self._leaves.append(leave)
        return found

    def _call_later(self, run: Execution, function: Any, *args: Any, **options: Any) -> Any:
        self._leaves.append(lambda: call(run, function, args, dict(options)))
        return function

    def leave(self) -> None:
        """Leave all contexts, the last one first."""
        while self._leaves:
            self._leaves.pop()()


def contexts_module() -> dict[str, object]:
    """`contextlib`."""
    return {
        "contextmanager": context_manager(),
        "nullcontext": Builtin("nullcontext", lambda run, value=None: PlainContext(value)),
        "ExitStack": Builtin("ExitStack", lambda run: ContextStack()),
    }


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

        return Wrapped(function.name, make, masked=False)

    return Builtin("contextlib.contextmanager", decorate)


def entered(node: ast.With) -> Callable[[Frame], Leave]:
    """Enters the contexts of a statement, binds their names, and returns what leaves them.

    They are also left by an exception of the kernel, which they cannot hide.
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
        raise KernelError(
            "unsupported_operand", "the function of a context manager did not yield", line
        )
    if isinstance(manager, PlainContext):
        return manager.value, lambda: None
    if isinstance(manager, ContextStack):
        return manager, manager.leave
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
        raise KernelError(
            "unsupported_operand", "the function of a context manager yields twice", line
        )


@converts(ast.With)
def _with(node: ast.With) -> Statement:
    enter, body = entered(node), block(node.body)

    def execute(frame: Frame) -> int:
        leave = enter(frame)
        place = Position(frame.run)
        try:
            signal = body(frame)
        except Raised:
            place.restore()
            leave()
            raise
        leave()
        return signal

    return execute
