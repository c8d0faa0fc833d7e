"""Targets of assignments and parameters of functions, and the expressions that bind names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, shown, too_large
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import (
    MOST_ITEMS,
    hashable,
    truth,
)
from tilewright.targets.trainium.language.classes import (
    set_attribute,
    special_method,
)
from tilewright.targets.trainium.language.contents import each_of, items_of_any, set_of
from tilewright.targets.trainium.language.conversion import converts, expression
from tilewright.targets.trainium.language.frames import (
    Expression,
    Frame,
    Function,
    Parameters,
)
from tilewright.targets.trainium.language.host_arrays import set_item_of_array
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.methods import items_to_add
from tilewright.targets.trainium.language.outer_names import OuterName
from tilewright.targets.trainium.language.tile_indices import region
from tilewright.targets.trainium.operations import assigning
from tilewright.targets.trainium.tiles.dtypes import HostArray
from tilewright.targets.trainium.tiles.view import View

Target = Callable[[Frame, Any], None]


def target_of(node: ast.expr) -> Target:
    """A function that assigns a value to a name, an element, or several of them."""
    if isinstance(node, ast.Name):
        return _to_name(node)
    if isinstance(node, OuterName):
        return _to_outer_name(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        return _to_several(node)
    if isinstance(node, ast.Subscript):
        return _to_element(node)
    if isinstance(node, ast.Attribute):
        return _to_attribute(node)
    raise not_supported(f"assigning to {type(node).__name__}", node.lineno)


def _to_name(node: ast.Name) -> Target:
    name = node.id
    if name.startswith("__"):
        raise not_supported(f"the name {name}", node.lineno)

    def assign(frame: Frame, value: Any) -> None:
        frame.names[name] = value
        if type(value) is View and not value.buffer.record.name:
            value.buffer.record.name = name

    return assign


def _to_outer_name(node: OuterName) -> Target:
    if node.id.startswith("__"):
        raise not_supported(f"the name {node.id}", node.lineno)

    def assign(frame: Frame, value: Any) -> None:
        node.home(frame).names[node.id] = value

    return assign


def _to_attribute(node: ast.Attribute) -> Target:
    owner, name, line = expression(node.value), node.attr, node.lineno
    if name.startswith("__"):
        raise not_supported(f"the attribute {name}", line)

    def assign(frame: Frame, value: Any) -> None:
        set_attribute(owner(frame), name, value, line)

    return assign


def _to_several(node: ast.Tuple | ast.List) -> Target:
    stars = [i for i, item in enumerate(node.elts) if isinstance(item, ast.Starred)]
    targets = [target_of(i.value if isinstance(i, ast.Starred) else i) for i in node.elts]
    line = node.lineno

    def assign(frame: Frame, value: Any) -> None:
        items = items_of_any(value)
        if stars and len(items) >= len(targets) - 1:
            at, many = stars[0], len(items) - len(targets) + 1
            items[at : at + many] = [items[at : at + many]]
        if len(items) != len(targets):
            raise KernelError(
                "index", f"{len(items)} values are assigned to {len(targets)} names", line
            )
        for target, item in zip(targets, items, strict=True):
            target(frame, item)

    return assign


def _to_element(node: ast.Subscript) -> Target:
    owner, key, line = expression(node.value), expression(node.slice), node.lineno

    def assign(frame: Frame, value: Any) -> None:
        place, item = owner(frame), key(frame)
        run = frame.run
        run.line = line
        if isinstance(place, View):
            if run.language == 2:
                raise KernelError(
                    "unsupported_assignment",
                    "NKI 2 writes tiles through operations with dst=, not by assignment",
                    line,
                )
            assigning.assign(run, region(run, place, item), value)
            return
        if isinstance(place, HostArray):
            set_item_of_array(run, place, item, value)
            return
        set_item(place, item, value, line)

    return assign


def set_item(place: Any, key: Any, value: Any, line: int) -> None:
    """Execute `place[key] = value` for a list, a dict or an object of the kernel's classes."""
    own = special_method(place, "__setitem__")
    if own is not None:
        own.call(own.function.run, [key, value], {})
        return
    if isinstance(place, dict):
        if len(place) >= arithmetic.MOST_ITEMS:
            raise too_large(f"a dict of more than {arithmetic.MOST_ITEMS:,} keys", line)
        place[hashable(key, line)] = value
        return
    if not isinstance(place, list):
        raise KernelError(
            "unsupported_assignment",
            f"elements of a {type(place).__name__} cannot be assigned",
            line,
        )
    if isinstance(key, slice):
        _set_items(place, key, items_to_add(place, value), line)
        return
    if type(key) is not int or not -len(place) <= key < len(place):
        raise KernelError("index", f"a list of {len(place)} items has no item {shown(key)}", line)
    place[key] = value


def _set_items(place: list[Any], part: slice, items: list[Any], line: int) -> None:
    try:
        place[part] = items
    except (TypeError, ValueError) as error:
        raise KernelError("index", f"{error} (list of {len(place)} items)", line) from None


@converts(ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
) -> Expression:

    if isinstance(node, ast.DictComp):
        key, element = expression(node.key), expression(node.value)
    else:
        key, element = None, expression(node.elt)
    loops = []
    for generator in node.generators:
        if generator.is_async:
            raise not_supported("async", node.lineno)
        conditions = [expression(c) for c in generator.ifs]
        loops.append((target_of(generator.target), expression(generator.iter), conditions))
    line = node.lineno

    def walk(frame: Frame, depth: int, first: Iterable[Any] = ()) -> Iterator[Any]:
        if depth == len(loops):
            item = element(frame)
            yield item if key is None else (hashable(key(frame), line), item)
            return
        target, values, conditions = loops[depth]
        for value in first if depth == 0 else each_of(values(frame)):
            frame.run.step()
            target(frame, value)
            if all(truth(condition(frame)) for condition in conditions):
                yield from walk(frame, depth + 1)

    def compute(frame: Frame) -> Any:
        items = walk(Frame(frame.run, frame), 0, each_of(loops[0][1](frame)))
        if isinstance(node, ast.GeneratorExp):
            return KernelIterator(frame.run, items)
        found = list(islice(items, MOST_ITEMS + 1))
        if len(found) > MOST_ITEMS:
            raise too_large(f"a list of more than {MOST_ITEMS:,} items", line)
        if isinstance(node, ast.SetComp):
            return set_of(found, line)
        return found if key is None else dict(found)

    return compute


@converts(ast.NamedExpr)
def _walrus(node: ast.NamedExpr) -> Expression:

    value, target = expression(node.value), target_of(node.target)

    def compute(frame: Frame) -> Any:
        found = value(frame)
        target(frame, found)
        return found

    return compute


@converts(ast.Lambda)
def _lambda(node: ast.Lambda) -> Expression:

    body, parameters = expression(node.body), parameters_of(node.args)
    return lambda frame: Function("lambda", parameters, body, frame, node=node)


def parameters_of(node: ast.arguments) -> Parameters:
    """The parameters of a function. Annotations are ignored."""
    names = tuple(a.arg for a in (*node.posonlyargs, *node.args))
    keyword_only = tuple(a.arg for a in node.kwonlyargs)
    defaults = list(
        zip(names[len(names) - len(node.defaults) :], map(expression, node.defaults), strict=True)
    )
    for name, default in zip(keyword_only, node.kw_defaults, strict=True):
        if default is not None:
            defaults.append((name, expression(default)))
    return Parameters(
        names,
        keyword_only,
        tuple(defaults),
        node.vararg.arg if node.vararg else None,
        node.kwarg.arg if node.kwarg else None,
    )
