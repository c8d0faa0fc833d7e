"""What the core computes from elements of arrays of unknown values: a function of their sum, or
the greatest of them.

`v = sums[x] + bias[c]; if (v > 127) v = 127;` is the function `min(s, 127)` of the sum `s` of two
elements. A function is a tree of operations, which can be computed for many sums at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tilewright.proposers.rewriter.raising.translation.runtime import divided, rest, signed, within

Tree: TypeAlias = Any
"""`SUM`, an integer, or a tuple of the name of an operation and its operands, which are trees."""
SUM = "sum"
MOST_NODES = 200
"""Maximum number of operations and operands in a tree."""
LONGEST = 63
"""Maximum number of bits of an integer in a tree, without its sign."""


class Undecided(Exception):
    """The core computes something other than a function of one sum, or branches on an element."""


@dataclass(frozen=True, slots=True, order=True)
class Element:
    """A signed integer in an array, with the value that it has after `moment` events of the run."""

    address: int
    bytes: int
    moment: int


def _refused(*_: object) -> NoReturn:
    raise Undecided("the core computes something other than a function of one sum of elements")


class Unknown:
    """A value that depends on elements. Python must not decide anything by it: neither whether it
    is zero, nor whether it is equal to something or the key of a dictionary."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise Undecided("the core branches on the value of an array element")


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "rshift", "lshift",
):  # fmt: skip
    setattr(Unknown, f"__{_name}__", _refused)
    setattr(Unknown, f"__r{_name}__", _refused)
for _name in (
    "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "int", "float", "index", "hash",
):  # fmt: skip
    setattr(Unknown, f"__{_name}__", _refused)


@dataclass(frozen=True, slots=True, eq=False)
class Data(Unknown):
    """A function of the sum of some elements."""

    terms: tuple[Element, ...]
    value: Tree = SUM
    nodes: int = 1

    @property
    def is_sum(self) -> bool:
        """Whether it is the sum itself."""
        return isinstance(self.value, str)

    def __add__(self, other: object) -> Data:
        ours = offset_of(self.value)
        theirs = offset_of(other.value) if isinstance(other, Data) else None
        if isinstance(other, Data) and ours is not None and theirs is not None:
            terms = tuple(sorted((*self.terms, *other.terms)))
            return Data(terms, *_with_offset(ours + theirs))
        if isinstance(other, int) and ours is not None:
            return Data(self.terms, *_with_offset(ours + other))
        found: Data = _computed("add", self, other)
        return found

    __radd__ = __add__


@dataclass(frozen=True, slots=True, eq=False)
class Greatest(Unknown):
    """The greatest of some elements and a number."""

    elements: frozenset[Element]
    least: int

    @property
    def terms(self) -> tuple[Element, ...]:
        """The elements, in order."""
        return tuple(sorted(self.elements))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Unknown):
    """A comparison of two values that depend on different elements."""

    name: str
    left: object
    right: object

    def greatest(self, yes: object, no: object) -> Greatest:
        """The value of `left > right ? yes : no`, if this is the greater one of `left` and
        `right`."""
        compared = _as_greatest(self.left), _as_greatest(self.right)
        given = _as_greatest(yes), _as_greatest(no)
        if self.name in ("lt", "le"):
            given = given[1], given[0]
        first, second = compared
        if first is None or second is None or given != compared or self.name not in _ORDERS:
            raise Undecided(_COMBINES)
        return Greatest(first[0] | second[0], max(first[1], second[1]))


_ORDERS = ("lt", "le", "gt", "ge")
_COMBINES = "the core combines values that it computed from different sums of elements"


def _as_greatest(value: object) -> tuple[frozenset[Element], int] | None:
    """The elements and the number of which a value is the greatest; None if it is something
    else."""
    if isinstance(value, int):
        return frozenset(), value
    if isinstance(value, Data) and len(value.terms) == 1 and value.terms[0].bytes == 1:
        least = _limit_below(value.value)
        return None if least is None else (frozenset(value.terms), least)
    return (value.elements, value.least) if isinstance(value, Greatest) else None


@lru_cache(maxsize=64)
def _limit_below(tree: Tree) -> int | None:
    """The number c if a function of one byte is the greater one of the byte and c; None if it is
    another function."""
    every = np.arange(-128, 128)
    found = values(tree, every)
    return int(found[0]) if np.array_equal(found, np.maximum(every, found[0])) else None


NOTHING = Data(())
"""The sum of no elements: zero."""


def offset_of(tree: Tree) -> int | None:
    """The number c if a function adds c to the sum; None if it is another function."""
    if tree == SUM:
        return 0
    is_offset = isinstance(tree, tuple) and tree[:2] == ("add", SUM) and isinstance(tree[2], int)
    return tree[2] if is_offset else None


def _with_offset(offset: int) -> tuple[Tree, int]:
    """The sum plus a number, and the nodes of this tree."""
    return (("add", SUM, offset), 3) if offset else (SUM, 1)


def _computed(name: str, *operands: object) -> Any:
    """The result of an operation on integers and functions of the same sum, or a comparison of
    other values."""
    terms = {o.terms for o in operands if isinstance(o, Data)}
    if len(terms) > 1 or any(isinstance(o, Greatest) for o in operands):
        if name not in _ORDERS:
            raise Undecided(_COMBINES)
        return Comparison(name, *operands)
    if not all(isinstance(o, int | Data) for o in operands):
        _refused()
    if any(isinstance(o, int) and o.bit_length() > LONGEST for o in operands):
        raise Undecided(f"the core computes with numbers of more than {LONGEST} bits")
    nodes = 1 + sum(o.nodes if isinstance(o, Data) else 1 for o in operands)
    if nodes > MOST_NODES:
        raise Undecided(f"the core computes a value in more than {MOST_NODES} steps")
    tree = (name, *(o.value if isinstance(o, Data) else o for o in operands))
    return Data(terms.pop(), tree, nodes)


def _shifted_left(value: Any, places: Any) -> Any:
    return value * (1 << np.asarray(places, np.int64))


def _quotients(left: Any, right: Any) -> Any:
    """`divided` for arrays."""
    return np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "invert": operator.invert,
    "rshift": operator.rshift, "lshift": _shifted_left,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "divided": _quotients, "rest": lambda a, b: a - b * _quotients(a, b), "signed": signed,
    "where": lambda test, yes, no: np.where(test != 0, yes, no),
}  # fmt: skip
"""The operations of a tree, on arrays of integers of 64 bits."""


def values(tree: Tree, sums: np.ndarray) -> np.ndarray:
    """The values of a function for sums."""
    if not isinstance(tree, tuple):
        return sums if tree == SUM else np.full_like(sums, tree)
    name, *operands = tree
    given = [o if isinstance(o, int) else values(o, sums) for o in operands]
    with np.errstate(divide="ignore"):  # of a choice, both values are computed
        return np.asarray(OPERATIONS[name](*given), np.int64)


def _operator(name: str, *, swapped: bool = False) -> Callable[..., Any]:
    def compute(self: object, *others: object) -> Any:
        return _computed(name, *others, self) if swapped else _computed(name, self, *others)

    return compute


for _name in ("sub", "mul", "and", "or", "xor", "rshift", "lshift"):
    setattr(Data, f"__{_name}__", _operator(_name))
    setattr(Data, f"__r{_name}__", _operator(_name, swapped=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "invert"):
    setattr(Data, f"__{_name}__", _operator(_name))
for _name in _ORDERS:
    setattr(Greatest, f"__{_name}__", _operator(_name))

_Value: TypeAlias = Any


def chosen(test: object, yes: Callable[[], _Value], no: Callable[[], _Value]) -> _Value:
    """The value of `test ? yes : no`."""
    if isinstance(test, Comparison):
        return test.greatest(yes(), no())
    if not isinstance(test, Data):
        return yes() if test else no()
    return _computed("where", test, yes(), no())


def truth(value: object) -> object:
    """The result of a comparison, as 0 or 1 if it does not depend on elements."""
    return value if isinstance(value, Data | Comparison) else int(bool(value))


def narrowed(value: _Value, bits: int) -> _Value:
    """A value converted to a signed integer of `bits` bits."""
    if isinstance(value, Greatest):
        most = 1 << (bits - 1)
        if not -most <= value.least < most or any(8 * e.bytes > bits for e in value.elements):
            raise Undecided("the core converts the greatest of some elements to a narrower type")
        return value
    if isinstance(value, Data):
        alone = value.is_sum and len(value.terms) == 1 and 8 * value.terms[0].bytes <= bits
        return value if alone else _computed("signed", value, bits)
    return signed(value, bits)


def short(value: _Value) -> _Value:
    """Refuse an addition of elements in more than 32 bits: sums in local memories have 32 bits."""
    if isinstance(value, Data) and len(value.terms) > 1:
        raise Undecided("the core adds array elements in more than 32 bits")
    return value


def _on_data(name: str, plain: Callable[[int, int], int]) -> Callable[[_Value, _Value], _Value]:
    """A function of the runtime that may also be given data."""

    def compute(left: _Value, right: _Value) -> _Value:
        if isinstance(left, Data) or isinstance(right, Data):
            return _computed(name, left, right)
        return plain(left, right)

    return compute


def _within(value: _Value) -> _Value:
    return value if isinstance(value, Data) else within(value)


WITH_DATA: Mapping[str, object] = {
    "truth": truth, "signed": narrowed, "short": short, "within": _within,
    "divided": _on_data("divided", divided), "rest": _on_data("rest", rest),
}  # fmt: skip
"""The functions that a translated kernel calls to compute with elements."""
