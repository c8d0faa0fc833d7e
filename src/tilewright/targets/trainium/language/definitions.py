"""Converts functions and classes of a kernel to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.targets.trainium.errors import not_supported
from tilewright.targets.trainium.language.arithmetic import SPECIAL
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import (
    REQUIRED,
    Class,
    ClassKind,
)
from tilewright.targets.trainium.language.conversion import block, converts, expression, statement
from tilewright.targets.trainium.language.frames import (
    NEXT,
    Frame,
    Function,
    Statement,
)
from tilewright.targets.trainium.language.generators import generator, has_yield
from tilewright.targets.trainium.language.outer_names import mark_outer_names
from tilewright.targets.trainium.language.targets import parameters_of
from tilewright.targets.trainium.language.values import Namespace


@converts(ast.FunctionDef)
def _function(node: ast.FunctionDef) -> Statement:
    name = node.name
    if name.startswith("__"):
        raise not_supported(f"the name {name}", node.lineno)
    make = _maker(node)

    def define(frame: Frame) -> int:
        frame.names[name] = make(frame, frame)
        return NEXT

    return define


def _maker(node: ast.FunctionDef) -> Callable[[Frame, Frame], Any]:
    """Creates the function with its decorators, from the frame of its definition and the enclosing
    one."""
    parameters, body, name, line = parameters_of(node.args), _body(node), node.name, node.lineno
    decorate = _decoration(node.decorator_list, line)

    def make(frame: Frame, around: Frame) -> Any:
        return decorate(frame, Function(name, parameters, body, around, node))

    return make


def _decoration(nodes: Sequence[ast.expr], line: int) -> Callable[[Frame, Any], Any]:
    decorators = [expression(decorator) for decorator in reversed(nodes)]

    def decorate(frame: Frame, found: Any) -> Any:
        for decorator in decorators:
            chosen = decorator(frame)
            frame.run.line = line
            found = call(frame.run, chosen, [found], {})
        return found

    return decorate


def _body(node: ast.FunctionDef) -> Callable[[Frame], Any]:
    body: Callable[[Frame], Any] | None = None
    yields = has_yield(node.body)

    def run_body(frame: Frame) -> Any:
        nonlocal body
        if body is None:
            mark_outer_names(node.body)
            body = generator(node.body) if yields else block(node.body)
        found = body(frame)
        return found if yields else frame.result

    return run_body


_HOOKS = (
    "__new__", "__setattr__", "__getattribute__", "__delattr__", "__init_subclass__",
    "__match_args__",
)  # fmt: skip
"""Special names that Python uses where this interpreter does not."""
_BASES: dict[str, ClassKind] = {"NamedTuple": "tuple", "Enum": "enum", "IntEnum": "numbers"}


@converts(ast.ClassDef)
def _class(node: ast.ClassDef) -> Statement:
    name, line = node.name, node.lineno
    if name.startswith("__"):
        raise not_supported(f"the name {name}", line)
    options = [(item.arg, expression(item.value)) for item in node.keywords]
    bases = [expression(base) for base in node.bases]
    parts = [(item, _part_of_class(item)) for item in node.body]
    decorate = _decoration(node.decorator_list, line)

    def define(frame: Frame) -> int:
        inner = Frame(frame.run, frame)
        fields: dict[str, Any] = {}
        for item, part in parts:
            part(inner)
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                field = item.target.id
                fields[field] = inner.names.get(field, REQUIRED)
        kind: ClassKind = "plain"
        known = []
        for option, value in options:
            if option != "metaclass" or getattr(value(frame), "name", "") != "ABCMeta":
                raise not_supported(f"a class with {option}=", line)
        for base in bases:
            found = base(frame)
            if isinstance(found, Class):
                known.append(found)
            elif isinstance(found, Namespace):
                kind = _BASES.get(found.name, kind)
            else:
                raise not_supported(f"a base class of type {type(found).__name__}", line)
        frame.names[name] = decorate(frame, Class(name, kind, fields, inner.names, known))
        return NEXT

    return define


def _special_name(node: ast.Assign) -> Statement:
    """`__radd__ = __add__`. Nothing here depends on `__slots__` and similar names."""
    names = [t.id for t in node.targets if isinstance(t, ast.Name)]
    for name in names:
        if name in _HOOKS:
            raise not_supported(f"a class with {name!r}", node.lineno)
    special, value = [name for name in names if name in SPECIAL], node.value

    def define(frame: Frame) -> int:
        for name in special:
            if not isinstance(value, ast.Name) or value.id not in frame.names:
                raise not_supported(f"this value of {name!r}", node.lineno)
            frame.names[name] = frame.names[value.id]
        return NEXT

    return define


def _part_of_class(node: ast.stmt) -> Statement:
    """A statement in a class's body. The functions of the class do not see the names in the
    class."""
    if isinstance(node, ast.Assign) and all(
        isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets
    ):
        return _special_name(node)
    if not isinstance(node, ast.FunctionDef):
        return statement(node)
    name = node.name
    if name in _HOOKS:
        raise not_supported(f"a class with {name!r}", node.lineno)
    make = _maker(node)

    def define(frame: Frame) -> int:
        if not name.startswith("__") or name in SPECIAL:
            assert frame.outer is not None
            frame.names[name] = make(frame, frame.outer)
        return NEXT

    return define
