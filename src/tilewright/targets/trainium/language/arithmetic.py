"""Operators in kernels: on numbers, with limits, and those of NKI on tiles, grids and masks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, not_supported, shown, too_large
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.classes import (
    Class,
    NumberMember,
    Record,
    items_of,
    special_method,
)
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.host_arrays import negated, operated
from tilewright.targets.trainium.language.tile_indices import tile_index
from tilewright.targets.trainium.language.values import (
    Builtin,
    Counter,
    DefaultDict,
    Deque,
    MemberSet,
)
from tilewright.targets.trainium.operations import elementwise
from tilewright.targets.trainium.operations.binary import binary as of_tiles
from tilewright.targets.trainium.operations.functions import Operator, activation, alu, name_of
from tilewright.targets.trainium.tiles.dtypes import DType, HostArray, HostType
from tilewright.targets.trainium.tiles.index import Index, Mask, combined, compared
from tilewright.targets.trainium.tiles.view import View

LARGEST = 1 << 256
"""Limit for integers, because larger ones would only waste time and memory."""
MOST_ITEMS = 1_000_000
"""Maximum number of items of a list, tuple or text."""

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
    "<<": operator.lshift, ">>": operator.rshift,
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_TILE_OPERATORS = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power",
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
    "!=": "not_equal", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor",
    "<<": "left_shift", ">>": "right_shift",
}  # fmt: skip
_SET_OPERATORS = "|&-^"
NUMBERS = frozenset({int, float, bool})


def binary(run: Execution, symbol: str, left: Any, right: Any) -> Any:
    """`left symbol right`."""
    if type(left) is Record or type(right) is Record:
        found = _by_method(run, _METHODS.get(symbol), left, right)
        if found is NotImplemented and (_is_tuple(left) or _is_tuple(right)):
            return binary(run, symbol, _plain_tuple(left), _plain_tuple(right))
        if found is NotImplemented:
            kinds = [v.cls.name if type(v) is Record else type(v).__name__ for v in (left, right)]
            raise KernelError(
                "unsupported_operand", f"{symbol} does not work on {' and '.join(kinds)}"
            )
        return found
    if isinstance(left, Index) and isinstance(right, View):
        right = tile_index(run, right)
    elif isinstance(left, View) and isinstance(right, Index):
        left = tile_index(run, left)
    if isinstance(left, View) or isinstance(right, View):
        return _of_tiles(run, symbol, left, right)
    if isinstance(left, Mask) or isinstance(right, Mask):
        return _of_masks(symbol, left, right)
    if isinstance(left, Index) or isinstance(right, Index):
        for value in (left, right):
            if type(value) not in (int, NumberMember) and not isinstance(value, Index):
                raise KernelError(
                    "unsupported_indexing",
                    "an index grid cannot be combined with a value of type "
                    f"{type(value).__name__}: expected an integer or another grid",
                )
        return combined(symbol, left, right)
    if symbol == "@":
        raise not_supported(f"@ of {type(left).__name__} and {type(right).__name__}")
    if isinstance(left, HostArray) or isinstance(right, HostArray):
        return operated(run, symbol, BINARY[symbol], left, right)
    return _of_plain(symbol, left, right)


def _is_tuple(value: Any) -> bool:
    return isinstance(value, Record) and value.cls.kind == "tuple"


def _plain_tuple(value: Any) -> Any:
    """The items of a named tuple; other values as they are."""
    return tuple(items_of(value)) if _is_tuple(value) else value


def _of_tiles(run: Execution, symbol: str, left: Any, right: Any) -> Any:
    name = _TILE_OPERATORS.get(symbol)
    if name is None:
        raise not_supported(f"the operator {symbol} on tiles")
    run.function = f"operator {symbol}"
    return of_tiles(run, Operator(name, symbol), left, right)


_METHODS: dict[str, tuple[str, str]] = {
    "+": ("__add__", "__radd__"), "-": ("__sub__", "__rsub__"), "*": ("__mul__", "__rmul__"),
    "/": ("__truediv__", "__rtruediv__"), "//": ("__floordiv__", "__rfloordiv__"),
    "%": ("__mod__", "__rmod__"), "**": ("__pow__", "__rpow__"), "@": ("__matmul__", "__rmatmul__"),
    "&": ("__and__", "__rand__"), "|": ("__or__", "__ror__"), "^": ("__xor__", "__rxor__"),
    "<<": ("__lshift__", "__rlshift__"), ">>": ("__rshift__", "__rrshift__"),
}  # fmt: skip
_COMPARISONS: dict[str, tuple[str, str]] = {
    "==": ("__eq__", "__eq__"), "!=": ("__ne__", "__ne__"), "<": ("__lt__", "__gt__"),
    "<=": ("__le__", "__ge__"), ">": ("__gt__", "__lt__"), ">=": ("__ge__", "__le__"),
}  # fmt: skip


IN_PLACE = {symbol: name.replace("__", "__i", 1) for symbol, (name, _) in _METHODS.items()}
_UNARY = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}
SPECIAL = frozenset(
    name for table in (_METHODS, _COMPARISONS) for names in table.values() for name in names
).union(IN_PLACE.values(), _UNARY.values(), (
    "__init__", "__post_init__", "__iter__", "__next__", "__len__", "__bool__", "__getitem__",
    "__setitem__", "__contains__", "__call__", "__enter__", "__exit__", "__repr__", "__str__",
    "__hash__", "__abs__", "__int__", "__float__", "__index__", "__getattr__",
))  # fmt: skip
"""The special methods of Python that are called for classes of a kernel."""


def _by_method(run: Execution, names: tuple[str, str] | None, left: Any, right: Any) -> Any:
    """The result of the left operand's method or the right one's; NotImplemented without both."""
    calls = [*zip(names or (), ((left, right), (right, left)), strict=False)]
    if (
        type(left) is type(right) is Record
        and right.cls is not left.cls
        and right.cls.inherits(left.cls)
    ):
        calls.reverse()  # the method of a derived class goes first
    for name, (one, other) in calls:
        own = special_method(one, name)
        if own is not None:
            return own.call(run, [other], {})
    return NotImplemented


def _of_masks(symbol: str, left: Any, right: Any) -> Mask:
    if symbol != "&":
        raise KernelError(
            "unsupported_expression_in_mask",
            f"masks can only be combined with '&', not with {symbol}",
        )
    mask, other = (left, right) if isinstance(left, Mask) else (right, left)
    if not isinstance(other, (Mask, bool)):
        raise KernelError(
            "unsupported_expression_in_mask",
            f"a mask cannot be combined with a value of type {type(other).__name__}",
        )
    found: Mask = mask & other
    return found


def _of_plain(symbol: str, left: Any, right: Any) -> Any:
    types = (type(left), type(right))
    if symbol == "*":
        for one, other in ((left, right), (right, left)):
            if isinstance(one, (list, tuple, str)) and type(other) is int:
                return _checked_size(one * max(0, min(other, _times(one))), one, other)
    if symbol == "+" and types[0] is types[1] and types[0] in (list, tuple, str):
        return _checked_length(left + right)
    if symbol == "|" and isinstance(left, dict) and isinstance(right, dict):
        return _checked_length({**left, **right})
    if symbol in _SET_OPERATORS and types == (MemberSet, MemberSet):
        return _checked_length(BINARY[symbol](left, right))
    if types == (Counter, Counter) and symbol in "+-":
        sign = 1 if symbol == "+" else -1
        total = {key: left.get(key, 0) + sign * right.get(key, 0) for key in {**left, **right}}
        return Counter({key: count for key, count in total.items() if count > 0})
    if not all(t in NUMBERS or issubclass(t, int) for t in types):
        raise KernelError(
            "unsupported_operand",
            f"{symbol} does not work on {types[0].__name__} and {types[1].__name__}",
        )
    whole = type(left) is not float and type(right) is not float
    if symbol == "**" and whole and abs(right) > 256 and abs(left) > 1:
        raise too_large(f"{left} ** {right}")
    if symbol == "<<" and right > 256:
        raise too_large(f"{left} << {right}")
    try:
        found = BINARY[symbol](left, right)
    except (ArithmeticError, ValueError, TypeError) as error:
        raise KernelError("arithmetic", f"{left} {symbol} {right}: {error}") from None
    return checked_number(found)


def of_numbers(op: Operator, numbers: Sequence[Any]) -> Any:
    """`np.maximum(3, 4)` and similar functions on plain numbers."""
    name = name_of(op)
    try:
        if len(numbers) == 2:
            found = alu(name)(*numbers)
        else:
            (value,) = numbers
            found = activation(name)(np.float64(value))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise KernelError("arithmetic", f"{op.spelled}: {error}") from None
    whole = all(isinstance(n, int) for n in numbers) and float(found).is_integer()
    return checked_number(int(found) if whole and name != "divide" else float(found))


def checked_number(found: Any) -> Any:
    """A number; refused if it is too large or complex."""
    if isinstance(found, int) and not -LARGEST < found < LARGEST:
        raise too_large("an integer of 2**256 or more")
    if isinstance(found, complex):
        raise KernelError("arithmetic", "the result is a complex number")
    return found


def _times(items: Any) -> int:
    return MOST_ITEMS // max(1, len(items)) + 1


def _checked_size(found: Any, items: Any, times: int) -> Any:
    if len(items) * times > MOST_ITEMS:
        raise too_large(f"a sequence of {len(items) * times:,} items")
    return found


def _checked_length(found: Any) -> Any:
    if len(found) > MOST_ITEMS:
        raise too_large(f"a sequence of {len(found):,} items")
    return found


def compare(run: Execution, symbol: str, left: Any, right: Any) -> Any:
    """A comparison: a truth value, a mask, or a tile."""
    if isinstance(left, View) or isinstance(right, View):
        return _of_tiles(run, symbol, left, right)
    if isinstance(left, Index) or isinstance(right, Index):
        for value in (left, right):
            if not isinstance(value, Index) and type(value) not in (int, NumberMember):
                raise KernelError(
                    "unsupported_expression_in_mask",
                    f"an index grid cannot be compared with a value of type {type(value).__name__}",
                )
        return compared(symbol, left, right)
    if isinstance(left, HostArray) or isinstance(right, HostArray):
        return operated(run, symbol, COMPARE[symbol], left, right)
    if type(left) is Record or type(right) is Record:
        found = _by_method(run, _COMPARISONS[symbol], left, right)
        if found is NotImplemented and symbol == "!=":
            found = _by_method(run, _COMPARISONS["=="], left, right)
            found = found if found is NotImplemented else not truth(found)
        if found is not NotImplemented:
            return found
        if _is_tuple(left) or _is_tuple(right):
            return compare(run, symbol, _plain_tuple(left), _plain_tuple(right))
        if type(left) is Record and left.cls.ordered and left.cls is getattr(right, "cls", None):
            items = [tuple(value.values.values()) for value in (left, right)]
            return compare(run, symbol, *items)
    if symbol in ("==", "!="):
        return _equal(left, right) == (symbol == "==")
    for value in (left, right):
        if type(value) not in _ORDERED and not isinstance(value, int):
            raise KernelError(
                "unsupported_operand", f"{symbol} does not work on {type(value).__name__}"
            )
    try:
        return COMPARE[symbol](bounded(left), bounded(right))
    except TypeError:
        raise KernelError(
            "unsupported_operand",
            f"{symbol} does not work on {type(left).__name__} and {type(right).__name__}",
        ) from None


_ORDERED = (int, float, bool, str, tuple, list, MemberSet)


def _equal(left: Any, right: Any) -> bool:
    """Whether two plain values are equal."""
    return bool(bounded(left) == bounded(right))


def bounded(value: Any) -> Any:
    """The value; refused if it contains too many items, including nested ones."""
    if type(value) not in _HOLDERS:
        return value
    waiting, count = [value], 0
    while waiting:
        found = waiting.pop()
        items = found.values() if isinstance(found, dict) else found
        count += 1 + len(found)
        if count > MOST_ITEMS:
            raise too_large(
                f"a {type(value).__name__} with more than {MOST_ITEMS:,} items, nested items "
                "included,"
            )
        waiting.extend([item for item in items if type(item) in _HOLDERS])
    return value


_HOLDERS = (list, tuple, dict, DefaultDict, Counter, Deque)


def hashable(key: Any, line: int | None) -> Any:
    """A key of a dict or a member of a set."""
    return _plain_key(bounded(key), line)


def _plain_key(key: Any, line: int | None) -> Any:
    if isinstance(key, (int, float, str, type(None), *_BY_IDENTITY)):
        return key
    if isinstance(key, Record) and key.has_hash and (
        key.cls.kind not in ("dataclass", "tuple")
        or all(_plain_key(item, line) is item for item in key.values.values())
    ):  # fmt: skip
        return key
    if isinstance(key, tuple) and all(_plain_key(item, line) is item for item in key):
        return key
    kind = key.cls.name if type(key) is Record else type(key).__name__
    raise KernelError(
        "unsupported_operand",
        f"a value of type {kind} cannot be a key of a dict or a member of a set",
        line,
    )


_BY_IDENTITY = (Class, Function, Builtin, DType, HostType, Operator)


def unary(run: Execution, symbol: str, value: Any) -> Any:
    """`-x`, `+x`, `~x`."""
    if isinstance(value, View):
        if symbol == "-":
            run.function = "operator -"
            return elementwise.tensor_scalar(run, value, Operator("multiply", "-"), -1)
        raise not_supported(f"the operator {symbol} on tiles")
    if isinstance(value, HostArray):
        return negated(run, symbol, value)
    if isinstance(value, Index):
        return combined("*", value, -1) if symbol == "-" else value
    if isinstance(value, Mask) or (symbol == "~" and type(value) is bool):
        raise KernelError(
            "unsupported_expression_in_mask",
            f"a mask cannot be negated with {symbol}: write the opposite comparison",
        )
    own = special_method(value, _UNARY[symbol])
    if own is not None:
        return own.call(run, [], {})
    if type(value) not in NUMBERS and not isinstance(value, int):
        raise KernelError("unsupported_operand", f"{symbol} does not work on {shown(value)}")
    if symbol == "-":
        return -value
    if symbol == "+":
        return +value
    if isinstance(value, float):
        raise KernelError("unsupported_operand", "~ does not work on a float")
    return ~value


def truth(value: Any) -> bool:
    """The truth value of a condition; tiles and grids have none."""
    kind = type(value)
    if kind is bool:
        return bool(value)
    if kind is Record:
        own = special_method(value, "__bool__") or special_method(value, "__len__")
        return True if own is None else bool(own.call(own.function.run, [], {}))
    if isinstance(value, (Index, Mask)):
        raise KernelError(
            "control_flow_condition_depending_on_arange",
            "a condition depends on an index grid: use it as a mask",
        )
    if isinstance(value, View):
        raise KernelError(
            "ambiguous_tensor_truth_value",
            "the truth value of a tile is ambiguous: 'if', 'and', 'or' and 'not' work on numbers, "
            "use nl.where or masks",
        )
    if isinstance(value, HostArray):
        raise KernelError(
            "ambiguous_tensor_truth_value", "the truth value of a NumPy array is ambiguous"
        )
    return bool(value)
