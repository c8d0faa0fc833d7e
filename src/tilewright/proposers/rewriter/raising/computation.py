"""The computation of a kernel: each stored row as a sum of products and rows of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from tilewright.proposers.rewriter.raising.own_arrays import Fillings

Operands: TypeAlias = tuple[Any, ...]
Product: TypeAlias = tuple[int, int, int, int]
"""First operand, its bytes from row to row, second operand, number of the kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The common properties of the products in a sum, except their addresses.

    `settings` are those of the array, `factors` the scales with which the two operands were loaded,
    `depth` and `columns` the size of the second operand. The elements of the first operand are
    `apart` bytes apart from term to term, and those of the second `stride` bytes; from column to
    column, they are `across` bytes apart. `transposed` says which of the two operands the array
    transposes.
    """

    settings: Operands
    factors: tuple[float, float]
    depth: int
    columns: int
    apart: int
    stride: int
    across: int
    transposed: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Store:
    """How a row of sums is stored: the settings of the store, such as scale and activation, whether
    the sums are stored `unscaled` instead, and the number of columns.

    If the row contains maxima instead of sums, `identities` are the addresses of the identity
    matrix and of the negated one. The `rows` of `Stored` are then those whose elements are
    compared.
    """

    settings: Operands
    unscaled: bool
    columns: int
    identities: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of sums that a store writes, `stride` bytes apart; the other fields are those of
    `Sums`."""

    address: int
    stride: int
    count: int
    phase: int
    how: Store
    products: tuple[Product, ...]
    rows: tuple[tuple[int, int, float], ...]


def relative(products: Sequence[Product]) -> np.ndarray:
    """Products as rows of an array. The addresses of the operands are relative to those of the
    first product.

    Sums that differ only in where their operands begin have equal arrays. Building and comparing
    arrays takes far less time than doing the same with tuples.
    """
    listed = chain.from_iterable(products)
    found = np.fromiter(listed, dtype=np.int64, count=4 * len(products)).reshape(-1, 4)
    if len(found):
        found[:, ::2] -= found[0, ::2].copy()
    return found


@dataclass(frozen=True, slots=True)
class Copied:
    """An array that the core writes before all commands, from elements of arguments.

    Its elements have `size` bytes. `blocks` are the addresses of parts of it with the addresses of
    their sources. Inside each, `inside` are the steps of both addresses, with their counts. All
    elements that are not copied are zero.
    """

    number: int
    size: int
    shape: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    inside: tuple[tuple[tuple[int, int], int], ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """An array that the core writes before all commands.

    It is a row whose elements are all `value`, or a square matrix with `value` on its diagonal and
    zeros elsewhere. Its elements have `size` bytes.
    """

    number: int
    size: int
    shape: tuple[int, ...]
    value: int


@dataclass
class Computation:
    """The computation of a run: the rows that it stores, by phase. A phase reads rows that earlier
    phases store.

    `own` are the kernel's own arrays among those that it stores. `unused` are the numbers of those
    that only the core needed. `copied` and `constants` are further arrays, which the core writes
    first.
    """

    stored: list[Stored]
    kinds: list[Kind]
    sync: str
    spaces: tuple[str, str]
    own: Fillings
    unused: frozenset[int] = frozenset()
    copied: tuple[Copied, ...] = ()
    constants: tuple[Constant, ...] = ()
