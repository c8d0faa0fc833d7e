"""Python's own functions, as far as kernels can use them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported, shown, too_large
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import (
    NUMBERS,
    binary,
    bounded,
    checked_number,
    compare,
    hashable,
    truth,
)
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import (
    Bound,
    Class,
    Record,
    has_class,
    marked,
    set_attribute,
    special_method,
)
from tilewright.targets.trainium.language.contents import (
    attribute_named,
    each_of,
    items_of_any,
    iterable,
    results_of,
    set_of,
)
from tilewright.targets.trainium.language.exceptions import EXCEPTIONS, raised
from tilewright.targets.trainium.language.formats import formatted, quoted_text_of, text_of
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.ordering import sorted_items
from tilewright.targets.trainium.language.values import Builtin, LoopRange, MemberSet, Namespace
from tilewright.targets.trainium.tiles.index import Index
from tilewright.targets.trainium.tiles.view import View


def number(value: Any, where: str) -> Any:
    """A plain number."""
    if type(value) in NUMBERS or isinstance(value, int):
        return value
    raise KernelError(
        "unsupported_operand", f"{where} takes a number, not a value of type {type(value).__name__}"
    )


def whole(value: Any, where: str) -> int:
    """A plain whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, (Index, View)):
        raise KernelError(
            "dynamic_control_flow_not_supported",
            f"{where} takes an integer that is known when the kernel is traced",
        )
    raise KernelError("unsupported_operand", f"{where} takes an integer, not {shown(value)}")


def _range(run: Execution, *args: Any) -> Any:
    values = bounded_range("range", *args)
    return LoopRange("sequential" if run.language == 1 else "static", values)


def bounded_range(name: str, *args: Any) -> range:
    """A range of whole numbers."""
    if not 1 <= len(args) <= 3:
        raise KernelError("missing_argument", f"{name} takes 1 to 3 numbers, not {len(args)}")
    numbers = [whole(arg, name) for arg in args]
    if len(numbers) == 3 and numbers[2] == 0:
        raise KernelError("unsupported_operand", f"{name}: the step is 0")
    found = range(*(int(checked_number(n)) for n in numbers))
    try:
        len(found)
    except OverflowError:
        raise too_large(f"{name} of more than 2**63 numbers") from None
    return found


def _extreme(name: str, symbol: str) -> Callable[..., Any]:
    def best(run: Execution, *args: Any, key: Any = None, default: Any = None) -> Any:
        items = items_of_any(args[0]) if len(args) == 1 else list(args)
        if not items and default is not None:
            return default
        if not items:
            raise KernelError("missing_argument", f"{name}() has no values to compare")
        keys = [_key(run, key, item, name) for item in items]
        chosen = 0
        for at, found in enumerate(keys):
            if compare(run, symbol, found, keys[chosen]):
                chosen = at
        return items[chosen]

    return best


def _key(run: Execution, key: Any, item: Any, name: str) -> Any:
    """The key by which an item is ordered."""
    if key is not None:
        item = call(run, key, [item], {})
    if isinstance(item, (str, tuple, list, Record)):
        return bounded(item)
    return number(item, name)


def _sum(run: Execution, values: Any, start: Any = 0) -> Any:
    total = start
    for item in items_of_any(values):
        run.step()
        total = binary(run, "+", total, item)
    return total


def _sorted(run: Execution, values: Any, *, key: Any = None, reverse: Any = False) -> list[Any]:
    return sorted_items(run, items_of_any(values), key, reverse)


def _map(run: Execution, function: Any, *values: Any) -> KernelIterator:
    rows = zip(*map(each_of, values), strict=False)
    return KernelIterator(run, (call(run, function, row, {}) for row in rows))


def _filter(run: Execution, function: Any, values: Any) -> KernelIterator:
    chosen = (
        v for v in each_of(values) if truth(v if function is None else call(run, function, [v], {}))
    )
    return KernelIterator(run, chosen)


def _enumerate(run: Execution, values: Any, start: Any = 0) -> KernelIterator:
    return KernelIterator(run, enumerate(each_of(values), whole(start, "start")))


def _dict(run: Execution, values: Any = (), **options: Any) -> dict[Any, Any]:
    if isinstance(values, dict):
        return {**values, **options}
    pairs = [items_of_any(pair) for pair in items_of_any(values)]
    if any(len(pair) != 2 for pair in pairs):
        raise KernelError("unsupported_operand", "dict takes pairs of a key and a value")
    return {**{hashable(key, run.line): value for key, value in pairs}, **options}


def _iter(run: Execution, values: Any) -> KernelIterator:
    return values if isinstance(values, KernelIterator) else KernelIterator(run, each_of(values))


def _next(run: Execution, items: Any, *default: Any) -> Any:
    own = special_method(items, "__next__")
    if own is not None:
        items = KernelIterator(run, results_of(own))
    if not isinstance(items, KernelIterator):
        raise KernelError("unsupported_operand", f"next takes an iterator, not {shown(items)}")
    for item in items:
        return item
    if not default:
        raise raised("StopIteration", "index", "next of an iterator that has no further items")
    return default[0]


def _getattr(run: Execution, value: Any, name: Any, *default: Any) -> Any:
    try:
        return attribute_named(run, value, _plain_name(name))
    except KernelError as error:
        if default and error.code == "not_supported":
            return default[0]
        raise


def _hasattr(run: Execution, value: Any, name: Any) -> bool:
    missing = object()
    return _getattr(run, value, name, missing) is not missing


def _setattr(run: Execution, value: Any, name: Any, new: Any) -> None:
    set_attribute(value, _plain_name(name), new, run.line)


def _plain_name(name: Any) -> str:
    if not isinstance(name, str) or name.startswith("_"):
        raise KernelError("unsupported_operand", f"{shown(name)} is not the name of an attribute")
    return name


def _set(run: Execution, values: Any = ()) -> MemberSet:
    return set_of(items_of_any(values), run.line)


def is_instance(run: Execution, value: Any, kinds: Any) -> bool:
    """Whether a value is of a class of the kernel or of a type of Python, or of one of several."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    found = False
    for kind in wanted:
        if isinstance(kind, Class):
            found = found or (has_class(value) and value.cls.inherits(kind))
        test = _KINDS.get(kind.name if isinstance(kind, Builtin) else "")
        found = found or (test is not None and test(value))
    return found


_KINDS: dict[str, Callable[[Any], bool]] = {
    "int": lambda v: isinstance(v, int), "float": lambda v: isinstance(v, float),
    "bool": lambda v: isinstance(v, bool), "str": lambda v: isinstance(v, str),
    "tuple": lambda v: isinstance(v, tuple), "list": lambda v: isinstance(v, list),
    "dict": lambda v: isinstance(v, dict), "set": lambda v: isinstance(v, MemberSet),
}  # fmt: skip


def _integer(run: Execution, value: Any = 0, base: Any = 10) -> int:
    own = special_method(value, "__int__")
    if own is not None:
        value = own.call(run, [], {})
    try:
        if isinstance(value, str):
            return int(checked_number(int(value[:_LONGEST_NUMBER], whole(base, "int"))))
        return int(checked_number(int(number(value, "int"))))
    except (OverflowError, ValueError) as error:
        raise raised("ValueError", "arithmetic", str(error)) from None


def _float(run: Execution, value: Any = 0.0) -> float:
    own = special_method(value, "__float__")
    if own is not None:
        value = own.call(run, [], {})
    try:
        if isinstance(value, str):
            return float(value[:_LONGEST_NUMBER])
        return float(number(value, "float"))
    except (OverflowError, ValueError) as error:
        raise KernelError("arithmetic", str(error)) from None


def _print(run: Execution, *args: Any, sep: Any = "", end: Any = "", flush: Any = False) -> None:
    """Does nothing, because output of kernels is not kept."""


def _zip(run: Execution, *args: Any, strict: Any = False) -> KernelIterator:
    return KernelIterator(run, zip(*map(each_of, args), strict=truth(strict)))


def _round(run: Execution, value: Any, digits: Any = None) -> Any:
    given = number(value, "round")
    if digits is None:
        return _integer(run, round(given) if math.isfinite(given) else given)
    places = whole(digits, "round")
    if abs(places) > _MOST_DIGITS:
        raise KernelError(
            "arithmetic", f"round takes from -{_MOST_DIGITS} to {_MOST_DIGITS} digits, not {places}"
        )
    return checked_number(round(given, places))


def _abs(run: Execution, value: Any) -> Any:
    own = special_method(value, "__abs__")
    return abs(number(value, "abs")) if own is None else own.call(run, [], {})


def _is_subclass(run: Execution, kind: Any, bases: Any) -> bool:
    wanted = bases if isinstance(bases, tuple) else (bases,)
    numbers = {"int": ("int",), "bool": ("bool", "int")}
    if isinstance(kind, Class):
        return any(isinstance(base, Class) and kind.inherits(base) for base in wanted)
    names = numbers.get(kind.name, (kind.name,)) if isinstance(kind, Builtin) else ()
    return any(isinstance(base, Builtin) and base.name in names for base in wanted)


def _letter(run: Execution, code: Any) -> str:
    try:
        return chr(whole(code, "chr"))
    except (OverflowError, ValueError) as error:
        raise KernelError("arithmetic", str(error)) from None


def _code(run: Execution, letter: Any) -> int:
    if not isinstance(letter, str) or len(letter) != 1:
        raise KernelError("unsupported_operand", f"ord takes one character, not {shown(letter)}")
    return ord(letter)


def _hash(run: Execution, value: Any) -> int:
    """The same number in every process, unlike Python's own for texts."""
    key = hashable(value, run.line)
    return key if isinstance(key, int) else zlib.crc32(quoted_text_of(key).encode())


_LONGEST_NUMBER = 100
"""Number of characters of the longest text that is converted to a number."""
_MOST_DIGITS = 400
"""Maximum number of digits of a rounded number; no number in a kernel has more."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "range": _range, "len": lambda run, value: len(_counted(value)),
    "min": _extreme("min", "<"), "max": _extreme("max", ">"), "map": _map, "filter": _filter,
    "set": _set, "frozenset": _set, "pow": lambda run, a, b: binary(run, "**", a, b),
    "abs": _abs, "sum": _sum, "int": _integer,
    "float": _float, "bool": lambda run, value=False: truth(value),
    "str": lambda run, value="": text_of(value), "isinstance": is_instance, "print": _print,
    "repr": lambda run, value: quoted_text_of(value), "issubclass": _is_subclass,
    "format": lambda run, value, spec="": formatted(value, str(spec)),
    "type": lambda run, value: type_of(value), "hash": _hash, "ord": _code, "chr": _letter,
    "hex": lambda run, n: hex(whole(n, "hex")), "bin": lambda run, n: bin(whole(n, "bin")),
    "oct": lambda run, n: oct(whole(n, "oct")),
    "tuple": lambda run, value=(): tuple(items_of_any(value)),
    "list": lambda run, value=(): items_of_any(value), "dict": _dict,
    "enumerate": _enumerate, "iter": _iter, "next": _next, "zip": _zip,
    "reversed": lambda run, value: items_of_any(value)[::-1],
    "sorted": _sorted,
    "round": _round, "divmod": lambda run, a, b: _divmod(a, b),
    "any": lambda run, value: any(truth(v) for v in items_of_any(value)),
    "all": lambda run, value: all(truth(v) for v in items_of_any(value)),
    "getattr": _getattr, "hasattr": _hasattr, "setattr": _setattr,
    "slice": lambda run, *args: slice(*args), "callable": lambda run, v: isinstance(
        v, (Builtin, Function, Class, Bound)) or special_method(v, "__call__") is not None,
}  # fmt: skip


def _counted(value: Any) -> Any:
    if isinstance(value, View):
        return value.shape and range(value.shape[0])
    if isinstance(value, KernelIterator):
        raise KernelError("unsupported_operand", "an iterator has no length: make a list of it")
    own = special_method(value, "__len__")
    if own is not None:
        return range(whole(own.call(own.function.run, [], {}), "len"))
    return iterable(value)


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    if number(b, "divmod") == 0:
        raise KernelError("arithmetic", "division by zero")
    found: tuple[Any, Any] = divmod(number(a, "divmod"), b)
    return found


def _named(name: str, function: Callable[..., Any]) -> Builtin:
    return Builtin(name, function, masked=False)


_BUILTINS = {name: _named(name, function) for name, function in FUNCTIONS.items()}


def type_of(value: Any) -> Any:
    """`type(value)` or `value.__class__`: a class of the kernel, or the function of this name."""
    if has_class(value):
        return value.cls
    kind = next((name for name in ("bool", *_KINDS) if is_instance_of(value, name)), "")
    if kind:
        return _BUILTINS[kind]
    raise not_supported(f"type() of a {type(value).__name__}")


def _from_keys(run: Execution, keys: Any, value: Any = None) -> dict[Any, Any]:
    return {hashable(key, run.line): value for key in items_of_any(keys)}


_BUILTINS["dict"].members["fromkeys"] = _named("dict.fromkeys", _from_keys)


def is_instance_of(value: Any, kind: str) -> bool:
    """Whether a value is of a type of Python, by its name."""
    return _KINDS[kind](value)


def builtins() -> Mapping[str, object]:
    """The names that every kernel has."""
    found: dict[str, object] = {**_BUILTINS, **EXCEPTIONS, "__name__": "kernel"}
    found["object"] = Namespace("object", {})
    for name in ("property", "staticmethod", "classmethod"):
        found[name] = marked(name)
    return found
