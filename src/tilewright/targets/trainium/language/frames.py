"""Names and their values during a pass through a kernel, and the kernel's own functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution

DEEPEST_CALL = 50
METHOD_OF = "super()"
"""The name of the class of a running method and its object. Kernels cannot use it."""


def too_deep() -> KernelError:
    """The error for calls that are nested too deeply."""
    return KernelError("too_deep", f"calls are nested deeper than {DEEPEST_CALL}")


class Frame:
    """The names of one call of a function, or of the module."""

    __slots__ = ("names", "outer", "result", "run")

    def __init__(self, run: Execution, outer: Frame | None) -> None:
        self.run = run
        self.outer = outer
        self.names: dict[str, Any] = {}
        self.result: Any = None

    def holder(self, name: str) -> Frame | None:
        """The frame in which a name has its value: this one, or the nearest enclosing one."""
        here: Frame | None = self
        while here is not None and name not in here.names:
            here = here.outer
        return here


Expression = Callable[[Frame], Any]
Statement = Callable[[Frame], int]
"""Returns NEXT, or how the flow of control continues."""
NEXT, BREAK, CONTINUE, RETURN = range(4)


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function."""

    names: tuple[str, ...]
    keyword_only: tuple[str, ...]
    defaults: tuple[tuple[str, Expression], ...]
    rest: str | None
    options: str | None


def _returns(node: ast.AST | None) -> bool:
    return node is None or any(
        isinstance(item, ast.Return) and item.value is not None for item in ast.walk(node)
    )


class Function:
    """A function in the kernel's text, with the enclosing names."""

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        body: Callable[[Frame], Any],
        frame: Frame,
        node: ast.AST | None = None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.is_kernel = False
        """Whether it was decorated with `nki.jit` or a similar decorator."""
        self._body = body
        self._frame = frame
        self.defaults = {n: default(frame) for n, default in parameters.defaults}
        self.line = getattr(node, "lineno", 0)
        self.returns = _returns(node)
        """Whether it returns anything."""
        self._node = node
        self.owner: Any = None
        """The class that defines it as a method, if one does."""
        self.is_abstract = False

    @property
    def run(self) -> Execution:
        """The pass in which it was defined."""
        return self._frame.run

    @property
    def launches(self) -> frozenset[str]:
        """Names of the functions that it calls with a grid: `name[...](...)`."""
        parts = [] if self._node is None else ast.walk(self._node)
        called = [part.func for part in parts if isinstance(part, ast.Call)]
        return frozenset(
            function.value.id
            for function in called
            if isinstance(function, ast.Subscript) and isinstance(function.value, ast.Name)
        )

    def call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the body with these arguments."""
        if run.depth >= DEEPEST_CALL:
            raise too_deep()
        run.step()
        frame = Frame(run, self._frame)
        frame.names.update(self.defaults)
        self._bind(frame, args, kwargs)
        if self.owner is not None and args:
            frame.names[METHOD_OF] = self.owner, args[0]
        line = run.line
        run.depth += 1
        found = self._body(frame)
        run.depth -= 1
        run.line = line
        return found

    def _bind(self, frame: Frame, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        wanted, names = self.parameters, frame.names
        if len(args) > len(wanted.names) and wanted.rest is None:
            raise KernelError(
                "too_many_arguments",
                f"{self.name}() takes {len(wanted.names)} positional arguments, not {len(args)}",
            )
        names.update(zip(wanted.names, args, strict=False))
        if wanted.rest is not None:
            names[wanted.rest] = tuple(args[len(wanted.names) :])
        given = wanted.names[: len(args)]
        options: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in given:
                raise KernelError("unexpected_keyword", f"{self.name}() got two values for {key!r}")
            if key in wanted.names or key in wanted.keyword_only:
                names[key] = value
            elif wanted.options is not None:
                options[key] = value
            else:
                raise KernelError("unexpected_keyword", f"{self.name}() has no parameter {key!r}")
        if wanted.options is not None:
            names[wanted.options] = options
        for name in (*wanted.names, *wanted.keyword_only):
            if name not in names:
                raise KernelError(
                    "missing_argument", f"{self.name}() is missing the argument {name!r}"
                )
