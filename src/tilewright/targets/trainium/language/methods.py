"""Methods of lists, tuples, dicts, sets and texts in kernels, and assignments that change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import (
    BINARY,
    IN_PLACE,
    MOST_ITEMS,
    binary,
    bounded,
    hashable,
)
from tilewright.targets.trainium.language.classes import special_method
from tilewright.targets.trainium.language.iterators import KernelIterator, rest_of
from tilewright.targets.trainium.language.values import DefaultDict, LoopRange, MemberSet


def items_to_add(items: Sequence[Any] | MemberSet, more: Any) -> list[Any]:
    """The items of a plain sequence, dict or set that are added to others."""
    if isinstance(more, LoopRange):
        more = more.values
    if isinstance(more, KernelIterator):
        more = rest_of(more, MOST_ITEMS)
    if not isinstance(more, (list, tuple, range, str, dict, MemberSet)):
        raise KernelError("unsupported_operand", f"{shown(more)} has no items to add")
    if len(items) + len(more) > MOST_ITEMS:
        raise KernelError("too_large", f"more than {MOST_ITEMS:,} items")
    return list(more)


def augmented(run: Execution, symbol: str, old: Any, new: Any) -> Any:
    """`old symbol= new` for values other than tiles: lists and sets change in place."""
    if isinstance(old, list) and symbol == "+":
        _extend(old, new)
        return old
    own = special_method(old, IN_PLACE.get(symbol, ""))
    if own is not None:
        return own.call(run, [new], {})
    found = binary(run, symbol, old, new)
    if isinstance(old, list) and isinstance(found, list):
        old[:] = found
        return old
    if isinstance(old, MemberSet):
        old.replace(found)
        return old
    return found


def _append(items: list[Any], value: Any) -> None:
    if len(items) >= MOST_ITEMS:
        raise KernelError("too_large", f"a list of more than {MOST_ITEMS:,} items")
    items.append(value)


def _extend(items: list[Any], more: Any) -> None:
    if isinstance(more, KernelIterator):
        for item in more:
            _append(items, item)
    else:
        items.extend(items_to_add(items, more))


def _pop(items: list[Any], at: int = -1) -> Any:
    try:
        return items.pop(at)
    except IndexError:
        raise KernelError("index", f"pop({at}) of a list with {len(items)} items") from None


def _index(items: Any, value: Any) -> int:
    if bounded(value) not in bounded(items):
        raise KernelError("index", f"{shown(value)} is not in a sequence of {len(items)} items")
    found: int = items.index(value)
    return found


def _remove(items: list[Any], value: Any) -> None:
    del items[_index(items, value)]


def _count(items: Any, value: Any) -> int:
    found: int = bounded(items).count(bounded(value))
    return found


def _sort(items: list[Any], *, key: None = None, reverse: bool = False) -> None:
    if key is not None:
        raise not_supported("list.sort with a key, which sorted has,")
    bounded(items).sort(reverse=reverse)


def _replaced(text: str, old: Any, new: Any) -> str:
    if not (isinstance(old, str) and isinstance(new, str)):
        raise KernelError("unsupported_operand", "replace takes texts")
    if text.count(old) * len(new) > LONGEST_TEXT:
        raise KernelError("too_large", f"a string of more than {LONGEST_TEXT:,} characters")
    return text.replace(old, new)


def _insert(items: list[Any], at: int, value: Any) -> None:
    _append(items, value)
    items.insert(at, items.pop())


def _join(text: str, parts: Any) -> str:
    if isinstance(parts, KernelIterator):
        parts = rest_of(parts, LONGEST_TEXT)
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise KernelError("unsupported_operand", "join takes texts")
    if sum(len(part) + len(text) for part in parts) > LONGEST_TEXT:
        raise KernelError("too_large", f"a string of more than {LONGEST_TEXT:,} characters")
    return text.join(parts)


LONGEST_TEXT = 10_000


def _get(mapping: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return mapping.get(bounded(key), default)


def _set_default(mapping: dict[Any, Any], key: Any, default: Any = None) -> Any:
    if hashable(key, None) not in mapping:
        _update_dict(mapping, {key: default})
    return mapping[key]


def _pop_key(mapping: dict[Any, Any], key: Any, *default: Any) -> Any:
    if hashable(key, None) not in mapping and not default:
        raise KernelError("index", f"a dict has no key {shown(key)}")
    return mapping.pop(key, *default)


def _update_dict(mapping: dict[Any, Any], *others: Any, **options: Any) -> None:
    for other in (*others, options):
        _add_keys(mapping, other)


def _add_keys(mapping: dict[Any, Any], other: Any) -> None:
    if not isinstance(other, dict):
        raise KernelError("unsupported_operand", f"{shown(other)} is not a dict")
    if len(mapping) + len(other) > MOST_ITEMS:
        raise KernelError("too_large", f"a dict of more than {MOST_ITEMS:,} keys")
    mapping.update(other)


_DICT_METHODS: dict[str, Callable[..., Any]] = {
    "get": _get, "pop": _pop_key, "setdefault": _set_default, "update": _update_dict,
    "clear": lambda m: m.clear(), "copy": lambda m: dict(m),
    "items": lambda m: list(m.items()),
    "keys": lambda m: list(m),
    "values": lambda m: list(m.values()),
}  # fmt: skip


def _add(members: MemberSet, value: Any) -> None:
    if len(members) >= MOST_ITEMS:
        raise KernelError("too_large", f"a set of more than {MOST_ITEMS:,} items")
    members.add(hashable(value, None))


def _members(value: Any) -> MemberSet:
    return MemberSet(hashable(item, None) for item in items_to_add((), value))


def _joined(symbol: str) -> Callable[..., MemberSet]:
    """The method of a set that does what an operator does, with any sequences."""

    def method(members: MemberSet, *others: Any) -> MemberSet:
        found = members
        for other in others:
            found = BINARY[symbol](found, _members(other))
        return MemberSet(found)

    return method


def _update(members: MemberSet, *others: Any) -> None:
    joined = _joined("|")(members, *others)
    if len(joined) > MOST_ITEMS:
        raise KernelError("too_large", f"a set of more than {MOST_ITEMS:,} items")
    members.replace(joined)


METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    list: {
        "append": _append, "extend": _extend, "pop": _pop, "insert": _insert,
        "index": _index, "remove": _remove, "count": _count, "clear": lambda items: items.clear(),
        "copy": lambda items: list(items), "sort": _sort, "reverse": lambda items: items.reverse(),
    },
    tuple: {"index": _index, "count": _count},
    MemberSet: {
        "add": _add, "discard": lambda members, value: members.discard(hashable(value, None)),
        "update": _update, "copy": lambda members: MemberSet(members), "union": _joined("|"),
        "intersection": _joined("&"), "difference": _joined("-"),
        "issubset": lambda members, other: members <= _members(other),
    },
    dict: _DICT_METHODS,
    DefaultDict: {**_DICT_METHODS, "copy": DefaultDict.copy},
    int: {"bit_length": lambda n: n.bit_length()},
    str: {
        "join": _join, "lower": lambda s: s.lower(), "upper": lambda s: s.upper(),
        "split": lambda s, *by: s.split(*by), "strip": lambda s, *c: s.strip(*c),
        "replace": _replaced, "isdigit": lambda s: s.isdigit(), "find": lambda s, p: s.find(p),
        "startswith": lambda s, p: s.startswith(p), "endswith": lambda s, p: s.endswith(p),
    },
}  # fmt: skip
