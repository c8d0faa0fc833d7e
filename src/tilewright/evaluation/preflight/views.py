"""The arrays of the comparisons from which attacks are made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.core.roles import CheckCase, Data

Array: TypeAlias = NDArray[Any]
Outputs: TypeAlias = Mapping[str, Array]

PART = 1 << 14
"""Number of rows that are computed at a time, because float64 arrays of all rows could be large."""


@dataclass(frozen=True)
class View:
    """The arrays of one comparison, before and after the call of a correct kernel."""

    case: CheckCase
    arguments: Sequence[Argument]
    _found: dict[str, bool] = field(default_factory=dict, init=False, repr=False)

    def given(self, name: str) -> Array:
        """An argument before the kernel runs; outputs contain data that the kernel must
        overwrite.
        """
        return next(array_of(a, self.case.given[name]) for a in self.arguments if a.name == name)

    @property
    def inputs(self) -> Mapping[str, Data]:
        """The arguments that a kernel reads."""
        given = self.case.given
        return {a.name: given[a.name] for a in self.arguments if a.is_given}

    @cached_property
    def expected(self) -> Outputs:
        """All written arguments after the call of a correct kernel."""
        found = self.case.expected
        return {a.name: array_of(a, found[a.name]) for a in self.arguments if a.is_written}

    @cached_property
    def key(self) -> str:
        """Hash of the values that a kernel reads."""
        digest = hashlib.sha256()
        for values in self.inputs.values():
            digest.update(values)
        return digest.hexdigest()

    def holds(self, what: str, find: Callable[[], bool]) -> bool:
        """The result of `find` for the outputs of this comparison, which is computed only once."""
        if what not in self._found:
            self._found[what] = find()
        return self._found[what]

    def forget(self) -> None:
        """Free the expected outputs. They are computed again when they are needed."""
        self.__dict__.pop("expected", None)

    def without(self, name: str) -> Outputs:
        """Correct outputs if the input `name` were all zeros, which need as much memory as those of
        this comparison.
        """
        self.forget()
        given = self.inputs
        changed = self.case.reference({**given, name: memoryview(bytearray(len(given[name])))})
        return {a.name: array_of(a, changed[a.name]) for a in self.arguments if a.is_written}


Make: TypeAlias = Callable[[Sequence[View], int], Outputs | None]
"""Outputs of the attack in comparison number `index`; None if the attack does not apply."""


def array_of(argument: Argument, data: Data) -> Array:
    """The data of an argument as an array."""
    return np.frombuffer(data, argument.dtype).reshape(argument.shape)


def of_each_output(change: Callable[[Array], Array]) -> Make:
    """An attack that changes every correct output in the same way."""
    return lambda views, index: {n: change(a) for n, a in views[index].expected.items()}


def magnitude(array: Array) -> float:
    """The largest absolute value."""
    return max(float(array.max()), -float(array.min()))


def in_parts(array: Array) -> Iterator[Array]:
    """The rows of an array, some at a time."""
    rows = rows_of(array)
    for first in range(0, len(rows), PART):
        yield rows[first : first + PART]


def rows_of(array: Array) -> Array:
    """The array as a matrix whose rows are those of the last dimension, as a view of the same
    memory.
    """
    return array.reshape(-1, array.shape[-1])


def is_same(one: Array, other: Array) -> bool:
    """Whether all elements of two arrays of one shape are equal, compared some at a time."""
    one, other = one.reshape(-1), other.reshape(-1)
    parts = [slice(first, first + (1 << 22)) for first in range(0, one.size, 1 << 22)]
    return all(np.array_equal(one[part], other[part]) for part in parts)
