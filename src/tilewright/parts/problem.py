"""The role of a workload's oracle: what the answer is, and how inputs that fit are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.arithmetic import SINGLE, Format
from tilewright.parts.float_error import HonestError, follow
from tilewright.parts.followed import Followed
from tilewright.parts.inputs import Array

Expected: TypeAlias = Array | Followed


class Problem(Protocol):
    """The oracle of a workload. Lives in the process that evaluates, out of a kernel's reach."""

    reduction: int
    """How many products each output sums; the scale of the inputs is chosen by it."""

    fingerprint: str
    """Content hash of the reference's own code where a user wrote it, else its version."""

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """Expected outputs by argument name, with as many elements as the arguments.

        An array has the argument's dtype, and the workload's tolerance holds for it. A `Followed`
        one knows how large float32 errors are; only a `FormulaProblem` gives such outputs.
        """
        ...


class FormulaProblem(ABC):
    """A problem whose outputs are floating point results of a formula, written for numpy arrays.

    The error that a kernel may have follows from the formula (`parts.float_error`). `numbers` is
    the format that an honest kernel computes in.
    """

    reduction: int
    fingerprint: str
    numbers: Format = SINGLE

    @abstractmethod
    def formula(self, operands: Mapping[str, Any]) -> Mapping[str, Any]:
        """Outputs by name; operands are numpy arrays or `Followed` ones."""

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the formula takes; by default the inputs."""
        return inputs

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Operands of a part of the outputs, on which honest errors are counted."""
        return operands

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Followed]:
        """All outputs, exact and with their deviations."""
        return follow(self.formula, self.operands(inputs), (), self.numbers)


class ProductProblem(FormulaProblem):
    """A matrix product of the operands `left` and `right`, which a subclass makes of the inputs."""

    output: str
    """Name of the argument that holds it."""

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The product."""
        return {self.output: operands["left"] @ operands["right"]}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows of one matrix and columns of the other."""
        left, right = sampled_product(operands["left"], operands["right"], rng)
        return {"left": left, "right": right}

    def elements(
        self, operands: Mapping[str, Array], output: str, places: Array
    ) -> Mapping[str, Array]:
        """A row times a column for each element; `left` and `right` are matrices."""
        rows, columns = places.T
        return products_of(operands["left"][rows], operands["right"][:, columns].T)


@runtime_checkable
class FollowsElements(Protocol):
    """A formula's problem that knows the operands of single elements, wherever they are."""

    def elements(
        self, operands: Mapping[str, Array], output: str, places: Array
    ) -> Mapping[str, Array]:
        """Operands of the elements of an output at `places`, one index of each axis in a row.

        They are `products_of` rows and columns: the formula gives as many elements for them, in
        the same order.
        """
        ...


@runtime_checkable
class DrawsInputs(Protocol):
    """A problem whose inputs must fit one another, which independent arrays would not."""

    distributions: tuple[str, ...]
    """Names, one for each comparison in turn; the first is that of timed calls."""

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one argument that is given."""
        ...


@runtime_checkable
class NamesIndependentInputs(Protocol):
    """A problem that draws its inputs, some of which may hold any numbers all the same."""

    @property
    def independent(self) -> frozenset[str]:
        """Names of inputs of which any numbers would do, whatever the other inputs hold."""
        ...


@runtime_checkable
class RepeatsReference(Protocol):
    """A problem whose reference a user wrote, who may have used random numbers in it."""

    def check_repeated(self, inputs: Mapping[str, Array], before: Mapping[str, Expected]) -> None:
        """Raise `WorkloadError` if the reference does not return what it returned `before`."""
        ...


@runtime_checkable
class MeasuresErrors(Protocol):
    """A problem that is no formula for numpy arrays, and yet knows what float32 is off by.

    Its reference gives `Followed` outputs.
    """

    def honest(self, inputs: Mapping[str, Array]) -> Mapping[str, HonestError]:
        """By output; `HopelessError` where float32 itself fails on these inputs."""
        ...


def products_of(rows: Array, columns: Array) -> Mapping[str, Array]:
    """Operands of one product for each row of two matrices [n, K]."""
    return {"left": rows[:, None, :], "right": columns[:, :, None]}


def in_orders(products: Mapping[str, Array], count: int) -> Iterator[Mapping[str, Array]]:
    """Operands of `products_of`, with their terms as they are and then in random orders."""
    rng = np.random.default_rng(count)
    order = np.arange(products["left"].shape[-1])
    for _ in range(count):
        yield {"left": products["left"][..., order], "right": products["right"][:, order]}
        order = rng.permutation(order)


MOST_SAMPLED = 1 << 19
"""Products, or elements, of a sample: what is computed in several orders of sums."""


def sampled_product(left: Array, right: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some rows of one matrix and columns of another, for a sample of their product."""
    side = int(np.clip((MOST_SAMPLED // left.shape[1]) ** 0.5, 4, 64))
    return left[chosen(len(left), side, rng)], right[:, chosen(right.shape[1], side, rng)]


def sampled_rows(rows: Array, rng: np.random.Generator) -> Array:
    """Some rows of a matrix, of which each row of an output follows from one.

    The rows of the least and of the largest values are among them: where float32 fails on some
    rows, it does on these, whatever else is drawn.
    """
    most = int(np.clip(MOST_SAMPLED // (8 * rows.shape[1]), 8, 64))
    sizes = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    ends = [int(sizes.argmin()), int(sizes.argmax())]
    return rows[np.union1d(chosen(len(rows), most, rng), ends)]


def chosen(count: int, most: int, rng: np.random.Generator) -> Array:
    """Indices of at most so many of `count` elements, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, most, replace=False))
