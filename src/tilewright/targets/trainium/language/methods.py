"""Methods of lists, tuples, dicts, sets and texts in kernels, and assignments that change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.targets.trainium.errors import KernelError, shown, too_large
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
from tilewright.targets.trainium.language.exceptions import raised
from tilewright.targets.trainium.language.formats import LONGEST_TEXT, format_text, percent
from tilewright.targets.trainium.language.host_arrays import changed_array
from tilewright.targets.trainium.language.iterators import KernelIterator, rest_of
from tilewright.targets.trainium.language.values import (
    Counter,
    DefaultDict,
    Deque,
    LoopRange,
    MemberSet,
)
from tilewright.targets.trainium.tiles.dtypes import HostArray


def items_to_add(items: Sequence[Any] | MemberSet, more: Any) -> list[Any]:
    """The items of a plain sequence, dict or set that are added to others."""
    if isinstance(more, LoopRange):
        more = more.values
    if isinstance(more, KernelIterator):
        more = rest_of(more, MOST_ITEMS)
    if not isinstance(more, (list, tuple, range, str, dict, MemberSet)):
        raise KernelError("unsupported_operand", f"{shown(more)} is not iterable")
    if len(items) + len(more) > MOST_ITEMS:
        raise too_large(f"a list, dict or set of more than {MOST_ITEMS:,} items")
    return list(more)


def augmented(run: Execution, symbol: str, old: Any, new: Any) -> Any:
    """`old symbol= new` for values other than tiles: lists and sets change in place."""
    if isinstance(old, list) and symbol == "+":
        if isinstance(old, Deque):
            _extend_deque(old, new)
        else:
            _extend(old, new)
        return old
    if isinstance(old, HostArray):
        return changed_array(run, symbol, old, new)
    own = special_method(old, IN_PLACE.get(symbol, ""))
    if own is not None:
        return own.call(run, [new], {})
    if symbol == "%" and isinstance(old, str):
        return percent(old, new)
    if symbol == "|" and isinstance(old, dict):
        _update_dict(old, new)
        return old
    found = binary(run, symbol, old, new)
    if isinstance(old, list) and isinstance(found, list):
        old[:] = found
        return old
    if isinstance(old, MemberSet):
        old.replace(found)
        return old
    return found


def _append(items: list[Any], value: Any) -> None:
    if isinstance(items, Deque) and items.most is not None and len(items) >= items.most:
        del items[:1]
        if not items.most:
            return
    if len(items) >= MOST_ITEMS:
        raise too_large(f"a list of more than {MOST_ITEMS:,} items")
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
        message = f"pop({at}) of a list with {len(items)} items"
        raise raised("IndexError", "index", message) from None


def _index(items: Any, value: Any) -> int:
    if bounded(value) not in bounded(items):
        message = f"{shown(value)} is not in a sequence of {len(items)} items"
        raise raised("ValueError", "index", message)
    found: int = items.index(value)
    return found


def _remove(items: list[Any], value: Any) -> None:
    del items[_index(items, value)]


def _count(items: Any, value: Any) -> int:
    found: int = bounded(items).count(bounded(value))
    return found


def _replaced(text: str, old: Any, new: Any) -> str:
    if not (isinstance(old, str) and isinstance(new, str)):
        raise KernelError("unsupported_operand", "replace takes strings")
    if text.count(old) * len(new) > LONGEST_TEXT:
        raise too_large(f"a string of more than {LONGEST_TEXT:,} characters")
    return text.replace(old, new)


def _insert(items: list[Any], at: int, value: Any) -> None:
    _append(items, value)
    items.insert(at, items.pop())


def _join(text: str, parts: Any) -> str:
    if isinstance(parts, KernelIterator):
        parts = rest_of(parts, LONGEST_TEXT)
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise KernelError("unsupported_operand", "join takes strings")
    if sum(len(part) + len(text) for part in parts) > LONGEST_TEXT:
        raise too_large(f"a string of more than {LONGEST_TEXT:,} characters")
    return text.join(parts)


def _get(mapping: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return mapping.get(hashable(key, None), default)


def _set_default(mapping: dict[Any, Any], key: Any, default: Any = None) -> Any:
    if hashable(key, None) not in mapping:
        _update_dict(mapping, {key: default})
    return mapping[key]


def _pop_key(mapping: dict[Any, Any], key: Any, *default: Any) -> Any:
    if hashable(key, None) not in mapping and not default:
        raise raised("KeyError", "index", f"a dict has no key {shown(key)}")
    return mapping.pop(key, *default)


def _update_dict(mapping: dict[Any, Any], *others: Any, **options: Any) -> None:
    for other in (*others, options):
        _add_keys(mapping, other)


def _add_keys(mapping: dict[Any, Any], other: Any) -> None:
    if not isinstance(other, dict):
        raise KernelError("unsupported_operand", f"{shown(other)} is not a dict")
    if len(mapping) + len(other) > MOST_ITEMS:
        raise too_large(f"a dict of more than {MOST_ITEMS:,} keys")
    mapping.update(other)


_DICT_METHODS: dict[str, Callable[..., Any]] = {
    "get": _get, "pop": _pop_key, "setdefault": _set_default, "update": _update_dict,
    "clear": lambda m: m.clear(), "copy": lambda m: dict(m),
    "items": lambda m: list(m.items()),
    "keys": MemberSet,
    "values": lambda m: list(m.values()), "popitem": lambda m: _pop_item(m),
}  # fmt: skip


def _pop_item(mapping: dict[Any, Any]) -> tuple[Any, Any]:
    if not mapping:
        raise raised("KeyError", "index", "popitem of an empty dict")
    return mapping.popitem()


def count_items(counter: Counter, sign: int, *others: Any, **options: int) -> None:
    """`Counter.update`, or `Counter.subtract` with the sign -1."""
    for other in (*others, options):
        counts = other if isinstance(other, dict) else dict.fromkeys(_members(other), 0)
        if not isinstance(other, dict):
            for item in items_to_add((), other):
                counts[hashable(item, None)] += 1
        _add_keys(counter, {k: counter.get(k, 0) + sign * n for k, n in counts.items()})


def _most_common(counter: Counter, most: int | None = None) -> list[tuple[Any, int]]:
    return sorted(counter.items(), key=lambda item: -item[1])[:most]


def _elements(counter: Counter) -> list[Any]:
    if sum(counter.values()) > MOST_ITEMS:
        raise too_large(f"a list, dict or set of more than {MOST_ITEMS:,} items")
    return [item for item, count in counter.items() for _ in range(count)]


def _append_left(items: Deque, value: Any) -> None:
    if items.most is not None and len(items) >= items.most:
        del items[-1:]
        if not items.most:
            return
    _insert(items, 0, value)


def _extend_deque(items: Deque, more: Any) -> None:
    for item in items_to_add((), more):
        _append(items, item)


def _extend_left(items: Deque, more: Any) -> None:
    for item in items_to_add((), more):
        _append_left(items, item)


def _rotate(items: Deque, by: int = 1) -> None:
    if items:
        at = -by % len(items)
        items[:] = items[at:] + items[:at]


def _add(members: MemberSet, value: Any) -> None:
    if len(members) >= MOST_ITEMS:
        raise too_large(f"a set of more than {MOST_ITEMS:,} items")
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
        raise too_large(f"a set of more than {MOST_ITEMS:,} items")
    members.replace(joined)


_LIST_METHODS: dict[str, Callable[..., Any]] = {
    "append": _append, "extend": _extend, "pop": _pop, "insert": _insert,
    "index": _index, "remove": _remove, "count": _count, "clear": lambda items: items.clear(),
    "copy": lambda items: list(items), "reverse": lambda items: items.reverse(),
}  # fmt: skip


def _width(n: Any) -> int:
    if not isinstance(n, int) or n > LONGEST_TEXT:
        raise too_large(f"a string of {shown(n)} characters")
    return n


METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    list: _LIST_METHODS,
    Deque: {
        **_LIST_METHODS, "copy": lambda d: Deque(d, d.most), "appendleft": _append_left,
        "popleft": lambda d: _pop(d, 0), "extend": _extend_deque, "extendleft": _extend_left,
        "rotate": _rotate,
    },
    Counter: {
        **_DICT_METHODS, "copy": lambda c: Counter(c), "most_common": _most_common,
        "elements": _elements, "total": lambda c: sum(c.values()),
        "update": lambda c, *more, **named: count_items(c, 1, *more, **named),
        "subtract": lambda c, *more, **named: count_items(c, -1, *more, **named),
    },
    KernelIterator: {"send": KernelIterator.send, "close": KernelIterator.close},
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
        "lstrip": lambda s, *c: s.lstrip(*c), "rstrip": lambda s, *c: s.rstrip(*c),
        "rsplit": lambda s, *by: s.rsplit(*by), "partition": lambda s, p: s.partition(p),
        "rpartition": lambda s, p: s.rpartition(p), "splitlines": lambda s: s.splitlines(),
        "title": lambda s: s.title(), "capitalize": lambda s: s.capitalize(),
        "count": lambda s, p: s.count(p), "index": lambda s, p: s.index(p),
        "zfill": lambda s, n: s.zfill(_width(n)), "format": format_text,
        "ljust": lambda s, n, c=" ": s.ljust(_width(n), c),
        "rjust": lambda s, n, c=" ": s.rjust(_width(n), c),
        "center": lambda s, n, c=" ": s.center(_width(n), c),
        "removeprefix": lambda s, p: s.removeprefix(p),
        "removesuffix": lambda s, p: s.removesuffix(p), "isalpha": lambda s: s.isalpha(),
        "isidentifier": lambda s: s.isidentifier(), "isupper": lambda s: s.isupper(),
    },
}  # fmt: skip
