"""Converts assignments, in-place operations and single expressions to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.contents import item_of
from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.frames import (
    NEXT,
    Frame,
    Statement,
)
from tilewright.targets.trainium.language.host_arrays import item as item_of_array
from tilewright.targets.trainium.language.host_arrays import set_item_of_array
from tilewright.targets.trainium.language.methods import augmented
from tilewright.targets.trainium.language.operators import symbol_of
from tilewright.targets.trainium.language.outer_names import OuterName
from tilewright.targets.trainium.language.targets import Target, set_item, target_of
from tilewright.targets.trainium.language.tile_indices import region
from tilewright.targets.trainium.operations import assigning
from tilewright.targets.trainium.tiles.dtypes import HostArray
from tilewright.targets.trainium.tiles.view import View


@converts(ast.Expr)
def _expression(node: ast.Expr) -> Statement:
    value = expression(node.value)

    def compute(frame: Frame) -> int:
        value(frame)
        return NEXT

    return compute


@converts(ast.Assign)
def _assign(node: ast.Assign) -> Statement:
    value, targets = expression(node.value), [target_of(t) for t in node.targets]

    def assign(frame: Frame) -> int:
        found = value(frame)
        for target in targets:
            target(frame, found)
        return NEXT

    return assign


@converts(ast.AnnAssign)
def _annotated(node: ast.AnnAssign) -> Statement:
    if node.value is None:
        return lambda frame: NEXT
    value, target = expression(node.value), target_of(node.target)

    def assign(frame: Frame) -> int:
        target(frame, value(frame))
        return NEXT

    return assign


@converts(ast.AugAssign)
def _augmented(node: ast.AugAssign) -> Statement:
    symbol, line, value = symbol_of(node.op), node.lineno, expression(node.value)
    store = target_of(node.target)
    if isinstance(node.target, (ast.Name, OuterName)):
        load: Callable[[Frame], Any] = expression(ast.copy_location(
            ast.Name(node.target.id, ast.Load()), node.target))  # fmt: skip
        return _augmented_name(load, store, value, symbol, line)
    if isinstance(node.target, ast.Attribute):
        load = expression(
            ast.copy_location(ast.Attribute(node.target.value, node.target.attr, ast.Load()),
                              node.target))  # fmt: skip
        return _augmented_name(load, store, value, symbol, line)
    owner, key = expression(node.target.value), expression(node.target.slice)
    item_of = _element(owner, key)

    def update(frame: Frame) -> int:
        place, item, old = item_of(frame)
        new = value(frame)
        run = frame.run
        run.line = line
        if isinstance(old, View):  # a region of a tile, or a tile in a list or dict
            _in_place(frame, old, symbol, new)
        elif isinstance(place, HostArray):
            set_item_of_array(run, place, item, augmented(run, symbol, old, new))
        else:
            set_item(place, item, augmented(run, symbol, old, new), line)
        return NEXT

    return update


def _element(
    owner: Callable[[Frame], Any], key: Callable[[Frame], Any]
) -> Callable[[Frame], tuple[Any, Any, Any]]:
    def find(frame: Frame) -> tuple[Any, Any, Any]:
        place, item = owner(frame), key(frame)
        if isinstance(place, View):
            return place, item, region(frame.run, place, item)
        if isinstance(place, HostArray):
            return place, item, item_of_array(frame.run, place, item)
        return place, item, item_of(place, item)

    return find


def _augmented_name(
    load: Callable[[Frame], Any], store: Target, value: Callable[[Frame], Any], symbol: str,
    line: int,
) -> Statement:  # fmt: skip
    def update(frame: Frame) -> int:
        old = load(frame)
        new = value(frame)
        frame.run.line = line
        if isinstance(old, View):
            _in_place(frame, old, symbol, new)
        else:
            store(frame, augmented(frame.run, symbol, old, new))
        return NEXT

    return update


def _in_place(frame: Frame, old: View, symbol: str, new: Any) -> None:
    """`tile += value` writes to the existing tile."""
    run = frame.run
    if run.language == 2:
        raise KernelError(
            "unsupported_assignment",
            f"NKI 2 has no {symbol}= on tiles: use nisa.tensor_tensor, or accumulate products in "
            "PSUM",
        )
    if symbol == "+":
        run.function = "+="
        assigning.accumulate(run, old, new)
        return
    assigning.assign(run, old, arithmetic.binary(run, symbol, old, new))


@converts(ast.Delete)
def _delete(node: ast.Delete) -> Statement:
    """Delete names and items. A tile exists as long as it is used, even without a name."""
    parts = [_deletion(item, node.lineno) for item in node.targets]

    def end(frame: Frame) -> int:
        for part in parts:
            part(frame)
        return NEXT

    return end


def _deletion(node: ast.expr, line: int) -> Callable[[Frame], None]:
    if isinstance(node, ast.Subscript):
        owner, key = expression(node.value), expression(node.slice)
        return lambda frame: _delete_item(owner(frame), key(frame), line)
    if not isinstance(node, ast.Name):
        raise not_supported("del of anything but names and items", line)
    name = node.id

    def delete(frame: Frame) -> None:
        if name not in frame.names:
            raise KernelError("undefined_name", f"name {name!r} is not defined here", line)
        del frame.names[name]

    return delete


def _delete_item(owner: Any, key: Any, line: int) -> None:
    if not isinstance(owner, (list, dict)):
        raise KernelError(
            "unsupported_operand", "only items of lists and dicts can be deleted", line
        )
    if not (isinstance(key, slice) and isinstance(owner, list)):
        item_of(owner, key)  # refuses a key that is missing
    del owner[key]
