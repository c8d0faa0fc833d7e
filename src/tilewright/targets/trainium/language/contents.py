"""Items, elements, keys and texts of the values of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import (
    MOST_ITEMS,
    bounded,
    hashable,
)
from tilewright.targets.trainium.language.attributes import (
    GridMaker,
    Grids,
    attribute,
)
from tilewright.targets.trainium.language.classes import (
    Class,
    Parent,
    Record,
    attribute_of_class,
    attribute_of_record,
    items_of,
    special_method,
)
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.grid import launch
from tilewright.targets.trainium.language.iterators import KernelIterator, rest_of
from tilewright.targets.trainium.language.methods import LONGEST_TEXT
from tilewright.targets.trainium.language.values import (
    DefaultDict,
    LoopRange,
    MemberSet,
)
from tilewright.targets.trainium.tiles.dtypes import DType
from tilewright.targets.trainium.tiles.index import Index, arange


def set_of(items: Iterable[Any], line: int) -> MemberSet:
    """A set of plain values."""
    return MemberSet(hashable(item, line) for item in items)


def items_of_any(value: Any) -> list[Any]:
    """All items of a value over which a loop may iterate."""
    found = iterable(value)
    if len(found) > MOST_ITEMS:
        raise KernelError("too_large", f"a sequence of {len(found):,} items")
    return list(found)


def each_of(value: Any) -> Iterable[Any]:
    """The items of a value, one after another. Those of an iterator are not computed yet, and a
    list may change in between."""
    value = _iterated(value)
    return value if isinstance(value, (list, KernelIterator)) else items_of_any(value)


def _iterated(value: Any) -> Any:
    """What `__iter__` of a class of the kernel returns; other values as they are."""
    own = special_method(value, "__iter__")
    if own is None:
        return value
    found = own.call(own.function.run, [], {})
    if isinstance(found, Record):
        raise not_supported(f"a class with '__next__' ({found.cls.name}; use yield)")
    return found


def iterable(value: Any) -> Any:
    """A value over which a loop may iterate, in addition to the ranges of NKI."""
    if isinstance(value, LoopRange):
        return value.values
    if isinstance(value, (dict, MemberSet)):
        return list(value)
    if isinstance(value, KernelIterator):
        return rest_of(value, MOST_ITEMS)
    if isinstance(value, (list, tuple, range, str)):
        return value
    if special_method(value, "__iter__") is not None:
        return items_of_any(_iterated(value))
    if isinstance(value, (Class, Record)):
        return items_of(value)
    raise KernelError("unsupported_operand", f"a value of type {type(value).__name__} has no items")


def attribute_named(run: Execution, owner: Any, name: str) -> Any:
    """`owner.name`, for any value with attributes."""
    if type(owner) is Record:
        return attribute_of_record(run, owner, name)
    if type(owner) is Parent:
        return owner.attribute(run, name)
    if type(owner) is Class:
        return attribute_of_class(owner, name)
    return attribute(run, owner, name)


def item_of(owner: Any, key: Any) -> Any:
    """`owner[key]`, for values other than tiles and arrays."""
    if isinstance(owner, Index):
        return owner.axes(key if isinstance(key, tuple) else (key,))
    if isinstance(owner, GridMaker):
        return grids(key)
    own = special_method(owner, "__getitem__")
    if own is not None:
        return own.call(own.function.run, [key], {})
    if isinstance(owner, Record):
        owner = items_of(owner)
    if isinstance(owner, Function) and owner.is_kernel:
        return launch(owner, key)
    if isinstance(owner, Class):
        return attribute_of_class(owner, str(key))
    if isinstance(owner, (list, tuple, str, range)):
        if not isinstance(key, (int, slice)):
            raise KernelError(
                "index", f"a {type(owner).__name__} is indexed with {text_of(key):.40}"
            )
        try:
            return owner[key]
        except IndexError:
            kind, count = type(owner).__name__, len(owner)
            raise KernelError("index", f"a {kind} of {count} items has no item {key}") from None
        except (TypeError, ValueError) as error:
            raise KernelError("index", str(error)) from None
    if isinstance(owner, dict):
        plain = isinstance(key, (int, float, str, bool, tuple))
        if plain and isinstance(owner, DefaultDict) and hashable(key, None) not in owner:
            owner[key] = owner.make()
            bounded(owner)
        if not plain or bounded(key) not in owner:
            raise KernelError("index", f"a dict has no key {text_of(key):.40}")
        return owner[key]
    raise KernelError(
        "unsupported_operand", f"a value of type {type(owner).__name__} cannot be indexed"
    )


def grids(key: Any) -> Grids:
    """`nl.mgrid[a:b, c:d]` as one grid for each slice."""
    items = key if isinstance(key, tuple) else (key,)
    found = []
    for axis, item in enumerate(items):
        if not isinstance(item, slice) or not isinstance(item.stop, int):
            raise KernelError("unsupported_indexing", "nl.mgrid takes slices with ends")
        line = arange(item.start or 0, item.stop, item.step or 1)
        steps = [0] * len(items)
        counts = [1] * len(items)
        steps[axis], counts[axis] = line.steps[0], line.counts[0]
        found.append(Index(line.offset, tuple(steps), tuple(counts)))
    return Grids(found)


def text_of(value: Any) -> str:
    """A value in an f-string or in a message."""
    if isinstance(value, (int, float, str, bool, type(None), DType)):
        return str(value)[:LONGEST_TEXT]
    if isinstance(value, (tuple, list)):
        items = ", ".join(text_of(item) for item in bounded(value)[:20])
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    return f"<{type(value).__name__}>"
