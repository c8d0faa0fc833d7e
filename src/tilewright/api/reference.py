"""Converts a user's reference function to the source of a separate module.

Evaluations run in processes that import the reference by themselves and never unpickle anything,
so a function is passed on as text: its own source, the source of the functions that it calls,
imports of installed modules, and plain constants. If it depends on anything else, it is refused
with the name of the dependency.
"""

from __future__ import annotations

import ast
import builtins
import dis
import importlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tilewright.core.errors import WorkloadError

NAME = "reference"
"""The name of the function in its module."""
REMEDY = "pass it as an input, compute it inside the function, or write a folder with reference.py"


def reference_source(function: Callable[..., Any]) -> str:
    """The text of a module that defines `reference` as this function; `WorkloadError` if that is
    impossible.

    Before: `def f(x): return np.tanh(x) * SCALE`. After: `import numpy as np`, `SCALE = 2.0`, the
    text of `f`, and `reference = f`.
    """
    if not isinstance(function, FunctionType):
        raise WorkloadError(
            f"the reference is {_article(function)}. Give a function that is written with def, "
            "takes the inputs by name and returns the outputs."
        )
    module = _Module(function.__name__)
    module.add_function(function.__name__, function)
    if function.__name__ != NAME:
        module.define(NAME, function, f"{NAME} = {function.__name__}")
    return "\n\n".join(["from __future__ import annotations", *module.parts]) + "\n"


class _Module:
    """Definitions in the order in which the module must contain them."""

    def __init__(self, reference: str) -> None:
        self.parts: list[str] = []
        self._reference = reference
        self._known: dict[str, object] = {}

    def define(self, name: str, value: object, text: str) -> None:
        """Add a definition unless it exists. Two different definitions of a name are an error."""
        if name not in self._known:
            self._known[name] = value
            self.parts.append(text)
        elif self._known[name] is not value and self._known[name] != value:
            raise WorkloadError(
                f"reference {self._reference} uses two different objects that have the name "
                f"{name!r}: rename one of them."
            )

    def add_function(self, name: str, function: FunctionType) -> None:
        """Add the text of a function, after the definitions that it needs."""
        if self._known.get(name) is function:
            return
        inner = inspect.unwrap(function)
        text, tree = self._text(inner)
        if inner.__closure__:
            names = ", ".join(inner.__code__.co_freevars)
            raise WorkloadError(
                f"reference {self._reference}: function {inner.__name__} uses {names} of the "
                f"enclosing function, which its own source does not contain: {REMEDY}."
            )
        written = sorted(set(_globals(inner.__code__, "STORE_GLOBAL")))
        if written:
            raise WorkloadError(
                f"reference {self._reference}: function {inner.__name__} changes the global "
                f"{written[0]!r}: it must depend only on its inputs."
            )
        self._known[name] = function
        for used in sorted(
            {*_globals(inner.__code__, "LOAD_GLOBAL"), *_evaluated_at_definition(tree)}
        ):
            if used in inner.__globals__:
                self._add(used, inner.__globals__[used])
            elif not hasattr(builtins, used):
                raise WorkloadError(
                    f"reference {self._reference}: function {inner.__name__} uses {used!r}, which "
                    "is not defined. Define or import it first."
                )
        self.parts.append(text)
        if inner.__name__ != name:
            self.parts.append(f"{name} = {inner.__name__}")

    def _add(self, name: str, value: object) -> None:
        statement = _import_of(name, value)
        if statement:
            self.define(name, value, statement)
        elif isinstance(value, FunctionType):
            self.add_function(name, value)
        elif _is_plain(value):
            self.define(name, value, f"{name} = {value!r}")
        else:
            raise WorkloadError(
                f"reference {self._reference} uses {name!r}, {_article(value)} from outside the "
                f"function: {REMEDY}."
            )

    def _text(self, function: FunctionType) -> tuple[str, ast.FunctionDef]:
        try:
            text = textwrap.dedent(inspect.getsource(function)).strip()
            node = ast.parse(text).body[0]
        except (OSError, TypeError, SyntaxError, IndexError):
            node = None
        if not isinstance(node, ast.FunctionDef):
            raise WorkloadError(
                f"the source of reference function {function.__name__} cannot be found. Write it "
                "with def, in a file or a notebook's cell."
            )
        return text, node


def _globals(code: CodeType, operation: str) -> Iterator[str]:
    """Names of its module that the code, or code inside it, reads ("LOAD_GLOBAL") or writes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == operation:
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner, operation)


def _evaluated_at_definition(function: ast.FunctionDef) -> Iterator[str]:
    """Names in decorators and defaults; annotations are not evaluated."""
    arguments = function.args
    defaults = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
    for expression in (*function.decorator_list, *defaults):
        yield from (n.id for n in ast.walk(expression) if isinstance(n, ast.Name))


def _import_of(name: str, value: object) -> str | None:
    """The statement that imports the value as `name` from an installed module, if there is one."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}" if _is_installed(value) else None
    called = getattr(value, "__name__", None)
    home = getattr(value, "__module__", None) or ("numpy" if called else None)
    if not isinstance(called, str) or not isinstance(home, str) or home == "__main__":
        return None
    try:
        module = importlib.import_module(home)
    except ImportError:
        return None
    if not _is_installed(module) or getattr(module, called, None) is not value:
        return None
    return f"from {home} import {called} as {name}"


def _is_installed(module: ModuleType) -> bool:
    """Whether another process of this Python finds the module, in the same version."""
    if module.__name__ in sys.builtin_module_names:
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path, library = Path(file).resolve(), Path(sysconfig.get_path("stdlib")).resolve()
    packages = {"site-packages", "dist-packages"}
    return path.is_relative_to(library) or not packages.isdisjoint(path.parts)


def _is_plain(value: object) -> bool:
    """Whether evaluating the value's text gives the value again."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except Exception:  # a value of any class, whose methods for text or comparison may fail
        return False


def _article(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
