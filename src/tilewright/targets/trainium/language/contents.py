"""Items, elements and keys of the values of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tilewright.targets.trainium.errors import KernelError, too_large
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
    Bound,
    Class,
    Parent,
    Record,
    attribute_of_class,
    attribute_of_record,
    has_class,
    items_of,
    special_method,
)
from tilewright.targets.trainium.language.exceptions import EXCEPTIONS, Position, Raised, raised
from tilewright.targets.trainium.language.formats import text_of
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.grid import launch
from tilewright.targets.trainium.language.iterators import KernelIterator, rest_of
from tilewright.targets.trainium.language.values import (
    Counter,
    DefaultDict,
    LoopRange,
    MemberSet,
    Namespace,
)
from tilewright.targets.trainium.tiles.index import Index, arange


def set_of(items: Iterable[Any], line: int) -> MemberSet:
    """A set of plain values."""
    return MemberSet(hashable(item, line) for item in items)


def items_of_any(value: Any) -> list[Any]:
    """All items of a value over which a loop may iterate."""
    found = iterable(value)
    if len(found) > MOST_ITEMS:
        raise too_large(f"a sequence of {len(found):,} items")
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
    step = special_method(found, "__next__")
    return found if step is None else KernelIterator(step.function.run, results_of(step))


def results_of(step: Bound) -> Iterator[Any]:
    """The results of `__next__` of a class until it raises `StopIteration`."""
    run = step.function.run
    while True:
        place = Position(run)
        try:
            item = step.call(run, [], {})
        except Raised as error:
            if not error.is_a(EXCEPTIONS["StopIteration"]):
                raise
            item = step
        if item is step:
            place.restore()
            return
        yield item


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
    if has_class(owner):
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
        index = special_method(key, "__index__")
        if index is not None:
            key = index.call(index.function.run, [], {})
        if not isinstance(key, (int, slice)):
            raise KernelError(
                "index", f"a {type(owner).__name__} cannot be indexed with {text_of(key):.40}"
            )
        try:
            return owner[key]
        except IndexError:
            kind, count = type(owner).__name__, len(owner)
            message = f"a {kind} of {count} items has no item {key}"
            raise raised("IndexError", "index", message) from None
        except (TypeError, ValueError) as error:
            raise KernelError("index", str(error)) from None
    if isinstance(owner, dict):
        if hashable(key, None) in owner:
            return owner[key]
        if isinstance(owner, Counter):
            return 0
        if isinstance(owner, DefaultDict):
            owner[key] = owner.make()
            bounded(owner)
            return owner[key]
        raise raised("KeyError", "index", f"a dict has no key {text_of(key):.40}")
    if isinstance(owner, Namespace):  # Generic[T]
        return owner
    raise KernelError(
        "unsupported_operand", f"a value of type {type(owner).__name__} cannot be indexed"
    )


def grids(key: Any) -> Grids:
    """`nl.mgrid[a:b, c:d]` as one grid for each slice."""
    items = key if isinstance(key, tuple) else (key,)
    found = []
    for axis, item in enumerate(items):
        if not isinstance(item, slice) or not isinstance(item.stop, int):
            raise KernelError(
                "unsupported_indexing", "nl.mgrid takes slices with an end, such as 0:128"
            )
        line = arange(item.start or 0, item.stop, item.step or 1)
        steps = [0] * len(items)
        counts = [1] * len(items)
        steps[axis], counts[axis] = line.steps[0], line.counts[0]
        found.append(Index(line.offset, tuple(steps), tuple(counts)))
    return Grids(found)
