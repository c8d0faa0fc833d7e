"""Converts sequences, dicts, subscripts and calls to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, too_large
from tilewright.targets.trainium.language.arithmetic import MOST_ITEMS, hashable
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import Parent
from tilewright.targets.trainium.language.contents import item_of, items_of_any, set_of
from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.frames import METHOD_OF, Expression, Frame
from tilewright.targets.trainium.language.host_arrays import item as item_of_array
from tilewright.targets.trainium.language.tile_indices import region
from tilewright.targets.trainium.operations.selection import LoopNames
from tilewright.targets.trainium.tiles.dtypes import HostArray
from tilewright.targets.trainium.tiles.view import View


@converts(ast.Set)
def _set(node: ast.Set) -> Expression:
    parts, line = _items(node.elts), node.lineno
    return lambda frame: set_of(_all_items(parts, frame), line)


@converts(ast.Tuple, ast.List)
def _sequence(node: ast.Tuple | ast.List) -> Expression:
    make: Callable[[list[Any]], Any] = tuple if isinstance(node, ast.Tuple) else list
    if any(isinstance(item, ast.Starred) for item in node.elts):
        parts = _items(node.elts)
        return lambda frame: make(_all_items(parts, frame))
    simple = [expression(item) for item in node.elts]
    return lambda frame: make([item(frame) for item in simple])


def _items(nodes: list[ast.expr]) -> list[tuple[bool, Expression]]:
    """The items of a call or sequence, and whether each stands for several (`*items`)."""
    return [
        (True, expression(n.value)) if isinstance(n, ast.Starred) else (False, expression(n))
        for n in nodes
    ]


def _all_items(parts: list[tuple[bool, Expression]], frame: Frame) -> list[Any]:
    found: list[Any] = []
    for several, part in parts:
        value = part(frame)
        if several:
            found.extend(items_of_any(value))
            if len(found) > MOST_ITEMS:
                raise too_large(f"a sequence of {len(found):,} items")
        else:
            found.append(value)
    return found


@converts(ast.Dict)
def _dict(node: ast.Dict) -> Expression:
    keys = [None if key is None else expression(key) for key in node.keys]
    values = [expression(value) for value in node.values]
    line = node.lineno

    def compute(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:  # {**other}
                found.update(_options(value(frame), line))
            else:
                found[hashable(key(frame), line)] = value(frame)
        return found

    return compute


@converts(ast.Slice)
def _slice(node: ast.Slice) -> Expression:
    lower, upper, step = [
        _none if n is None else expression(n) for n in (node.lower, node.upper, node.step)
    ]
    if step is _none:
        return lambda frame: slice(lower(frame), upper(frame))
    return lambda frame: slice(lower(frame), upper(frame), step(frame))


def _none(frame: Frame) -> None:
    """A missing part of a slice."""


@converts(ast.Subscript)
def _subscript(node: ast.Subscript) -> Expression:
    value, key, line = expression(node.value), expression(node.slice), node.lineno

    def load(frame: Frame) -> Any:
        owner, item = value(frame), key(frame)
        frame.run.line = line
        if isinstance(owner, View):
            return region(frame.run, owner, item)
        if isinstance(owner, HostArray):
            return item_of_array(frame.run, owner, item)
        return item_of(owner, item)

    return load


@converts(ast.Call)
def _call(node: ast.Call) -> Expression:
    if isinstance(node.func, ast.Name) and node.func.id == "super":
        return _super(node)
    function, line, column = expression(node.func), node.lineno, node.col_offset
    keywords: list[tuple[str | None, Expression]] = [
        (
            item.arg,
            _loop_names(item.value) if item.arg == "loop_indices" else expression(item.value),
        )
        for item in node.keywords
    ]
    parts = _items(node.args)
    starred = any(several for several, _ in parts)
    plain = [part for _, part in parts]

    def compute(frame: Frame) -> Any:
        called = function(frame)
        args = _all_items(parts, frame) if starred else [part(frame) for part in plain]
        kwargs: dict[str, Any] = {}
        for name, value in keywords:
            if name is None:
                kwargs.update(_options(value(frame), line))
            else:
                kwargs[name] = value(frame)
        run = frame.run
        run.line, run.column = line, column
        return call(run, called, args, kwargs)

    return compute


def _super(node: ast.Call) -> Expression:
    line = node.lineno
    if node.args or node.keywords:
        raise not_supported("super with arguments", line)

    def compute(frame: Frame) -> Parent:
        holder = frame.holder(METHOD_OF)
        if holder is None:
            raise KernelError("undefined_name", "super() is used outside of a method", line)
        return Parent(*holder.names[METHOD_OF])

    return compute


def _loop_names(node: ast.expr) -> Expression:
    """`loop_indices=[k]` means the loops with these variables, not their present values."""
    if isinstance(node, ast.List | ast.Tuple) and node.elts:
        names = [item.id for item in node.elts if isinstance(item, ast.Name)]
        if len(names) == len(node.elts):
            found = LoopNames(names)
            return lambda frame: found
    return expression(node)


def _options(value: Any, line: int) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise KernelError("unsupported_operand", "** needs a dict with strings as keys", line)
    return value
