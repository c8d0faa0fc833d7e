"""Values in kernels in addition to numbers and tiles: functions, namespaces, ranges, decorators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSet, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.operations.functions import Operator
from tilewright.targets.trainium.tiles.dtypes import DTYPES, DType
from tilewright.targets.trainium.tiles.index import Mask
from tilewright.targets.trainium.trace import LoopKind

_NEVER = Mask(1, False, lambda: np.zeros((1,), bool))


class Namespace:
    """A module or class as kernels see it: only the names that it has."""

    def __init__(self, name: str, members: Mapping[str, object]) -> None:
        self.name = name
        self.members = members


@dataclass(frozen=True, slots=True)
class LoopRange:
    """`nl.affine_range(n)` and similar functions, and `range` in a kernel."""

    kind: LoopKind
    values: range


@dataclass(frozen=True, slots=True)
class Missing:
    """The value of a name that may be defined but not used. `error` gives the reason."""

    error: KernelError


@dataclass(frozen=True, slots=True)
class Decorator:
    """`nki.jit` and similar decorators, which do not change a function."""

    name: str


class Builtin:
    """A function of the language or an operation of NKI."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        operator: str = "",
        hidden: Sequence[str] = (),
        ignored: Sequence[str] = (),
        masked: bool = True,
    ) -> None:
        """`function` takes the execution as its first argument. Parameters in `hidden` cannot be
        given.

        With `masked`, a parameter `mask` is a mask of NKI, which is checked here.
        """
        self.name = name
        self._masked = masked
        self.operator = Operator(operator, name) if operator else None
        self.members: dict[str, Builtin] = {}
        """Functions that are its attributes."""
        self._function = function
        self._ignored = frozenset(ignored)
        self._accepted: set[tuple[object, ...]] = set()
        """Numbers of arguments and keywords of calls that were accepted, if no argument is
        ignored."""
        parameters = list(inspect.signature(function).parameters.values())[1:]
        kinds = inspect.Parameter
        self.positional = [
            p.name
            for p in parameters
            if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
            and p.name not in hidden
        ]
        keyword_only = [
            p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY and p.name not in hidden
        ]
        self._known = frozenset([*self.positional, *keyword_only])
        self._any_keyword = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        self._most = (
            None
            if any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
            else len(self.positional)
        )
        self._required = [
            p.name
            for p in parameters
            if p.default is kinds.empty
            and p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
            and p.name not in hidden
        ]

    def call(self, run: Execution, args: Sequence[object], kwargs: dict[str, Any]) -> Any:
        """Check the names and number of the arguments, and call the function."""
        run.function = self.name
        self.check(args, kwargs)
        return self._function(run, *args, **kwargs)

    def check(self, args: Sequence[object], kwargs: dict[str, Any]) -> None:
        """Check names and number of arguments, and convert masks and types to one form."""
        form = (len(args), *kwargs)
        if form not in self._accepted:
            self._check_names(args, kwargs)
            if len(form) == 1 + len(kwargs) and not self._any_keyword:
                self._accepted.add(form)
        if self._masked and "mask" in kwargs:
            kwargs["mask"] = _mask(self.name, kwargs["mask"])
        dtype = kwargs.get("dtype")
        if isinstance(dtype, str):
            dtype = kwargs["dtype"] = DTYPES.get(dtype, dtype)
        if dtype is not None and not isinstance(dtype, DType):
            raise KernelError("unsupported_dtype", f"{self.name}: {shown(dtype)} is not a type")

    def _check_names(self, args: Sequence[object], kwargs: dict[str, Any]) -> None:
        if self._most is not None and len(args) > self._most:
            raise KernelError(
                "too_many_arguments",
                f"{self.name} takes {self._most} positional arguments, not {len(args)}: "
                f"({', '.join(self.positional)})",
            )
        given = self.positional[: len(args)]
        for key in list(kwargs):
            if key in self._ignored:
                del kwargs[key]
            elif key not in self._known and not self._any_keyword:
                raise KernelError(
                    "unexpected_keyword",
                    f"{self.name} has no parameter {key!r}: "
                    f"{', '.join(sorted(self._known)) or 'it has none'}",
                )
            elif key in given:
                raise KernelError("unexpected_keyword", f"{self.name} got two values for {key!r}")
        for name in self._required:
            if name not in kwargs and name not in given:
                raise KernelError(
                    "missing_argument", f"{self.name} is missing the argument {name!r}"
                )

    def __repr__(self) -> str:
        return self.name


def _mask(function: str, mask: object) -> Mask | None:
    if mask is None or mask is True:
        return None
    if mask is False:
        return _NEVER
    if not isinstance(mask, Mask):
        raise KernelError(
            "unsupported_expression_in_mask",
            f"{function}: a mask is a comparison of index expressions joined by '&', not "
            f"{type(mask).__name__}",
        )
    return None if mask.always else mask


class DefaultDict(dict[Any, Any]):
    """A `collections.defaultdict`: `make` returns the value of a key that is not in it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__()
        self.make = make

    def copy(self) -> DefaultDict:
        """A copy that makes values for new keys in the same way."""
        found = DefaultDict(self.make)
        found.update(self)
        return found


class Counter(dict[Any, Any]):
    """A `collections.Counter`."""


class Deque(list[Any]):
    """A `collections.deque`, which keeps at most `most` items."""

    def __init__(self, items: Iterable[Any] = (), most: int | None = None) -> None:
        super().__init__(items)
        self.most = most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deque) and list.__eq__(self, other)

    __hash__ = None


class MemberSet(MutableSet[Any]):
    """A `set` of plain values, which keeps the order in which they were added."""

    def __init__(self, members: Iterable[Any] = ()) -> None:
        self._members = dict.fromkeys(members)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, value: Any) -> None:
        """Add one member."""
        self._members[value] = None

    def discard(self, value: Any) -> None:
        """Remove a member if it exists."""
        self._members.pop(value, None)

    def replace(self, members: Iterable[Any]) -> None:
        """Hold only these members."""
        self._members = dict.fromkeys(members)
