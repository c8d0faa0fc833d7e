"""The roles of a workload's reference: the correct outputs, and suitable inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.arithmetic import SINGLE, Format
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import HonestError, follow
from tilewright.parts.inputs import Array

Expected: TypeAlias = Array | TrackedArray


class Problem(Protocol):
    """The reference of a workload. It is used only in the evaluating process, to which kernels have
    no access.
    """

    reduction: int
    """The number of products that each output sums, from which the scale of the inputs is
    computed.
    """

    fingerprint: str
    """A hash of the reference's code if a user wrote it, or otherwise its version."""

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """Expected outputs by argument name, with as many elements as the arguments.

        An array has the argument's dtype, and the workload's tolerance applies to it. A
        `TrackedArray` array contains the information from which the allowed error is computed; only
        a `FormulaProblem` returns it.
        """
        ...


class FormulaProblem(ABC):
    """A problem whose outputs are floating-point results of a formula for numpy arrays.

    The allowed error of a kernel is computed from the formula (`parts.float_error`). `numbers` is
    the format in which an honest kernel computes.
    """

    reduction: int
    fingerprint: str
    numbers: Format = SINGLE

    @abstractmethod
    def formula(self, operands: Mapping[str, Any]) -> Mapping[str, Any]:
        """Outputs by name; operands are numpy arrays or `TrackedArray` ones."""

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The operands of the formula, which by default are the inputs."""
        return inputs

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Operands of a part of the outputs, on which honest errors are computed."""
        return operands

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, TrackedArray]:
        """All outputs, with exact values and deviations."""
        return self.followed(inputs, self.numbers)

    def values(self, inputs: Mapping[str, Array]) -> Mapping[str, TrackedArray]:
        """All outputs, with the exact values of `reference`, but without deviations."""
        return self.followed(inputs, replace(self.numbers, rounds=False))

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> Mapping[str, TrackedArray]:
        """All outputs in a format. Subclasses may compute them in another way."""
        return follow(self.formula, self.operands(inputs), (), numbers)


class ProductProblem(FormulaProblem):
    """A matrix product of the operands `left` and `right`, which a subclass makes from the
    inputs.
    """

    output: str
    """The name of the output."""

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The matrix product, by the name of the output."""
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
    """A problem with a formula for which the operands of single elements can be computed."""

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
    """A problem whose inputs depend on one another, so that they cannot be drawn independently."""

    distributions: tuple[str, ...]
    """Names, one for each comparison in turn; the first is that of timed calls."""

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one input."""
        ...


@runtime_checkable
class HasUsersInputs(Protocol):
    """A problem whose inputs a user chooses."""

    to_choose: str
    """What the user does to choose inputs, for messages; the word "inputs" follows."""


@runtime_checkable
class NamesIndependentInputs(Protocol):
    """A problem that draws its inputs, some of which may nevertheless contain any numbers."""

    @property
    def independent(self) -> frozenset[str]:
        """The names of inputs that may contain any numbers, independently of the other inputs."""
        ...


@runtime_checkable
class GeneratesInputs(Protocol):
    """A problem with inputs whose elements may depend on one another, such as sorted offsets."""

    @property
    def generated(self) -> frozenset[str]:
        """The names of these inputs, of which a part must never be replaced alone."""
        ...


@runtime_checkable
class RepeatsReference(Protocol):
    """A problem whose reference was written by a user and may not be deterministic."""

    def check_repeated(self, inputs: Mapping[str, Array], before: Mapping[str, Expected]) -> None:
        """Raise `WorkloadError` if the reference does not return what it returned `before`."""
        ...


@runtime_checkable
class LeavesInputs(Protocol):
    """A problem whose reference never writes its inputs, so that it needs no copy of them."""

    leaves_inputs: bool


@runtime_checkable
class MeasuresErrors(Protocol):
    """A problem without a formula for numpy arrays that can nevertheless compute the error of
    float32 arithmetic.

    Its reference returns `TrackedArray` outputs.
    """

    def honest(self, inputs: Mapping[str, Array]) -> Mapping[str, HonestError]:
        """The honest error of each output; `HopelessError` if float32 itself fails on these
        inputs.
        """
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
"""Maximum number of products, or elements, of a sample, which is computed in several orders of
sums.
"""


def sampled_product(left: Array, right: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some rows of one matrix and columns of another, for a sample of their product."""
    side = int(np.clip((MOST_SAMPLED // left.shape[1]) ** 0.5, 4, 64))
    return left[chosen(len(left), side, rng)], right[:, chosen(right.shape[1], side, rng)]


def sampled_rows(rows: Array, rng: np.random.Generator) -> Array:
    """Some rows of a matrix, for problems in which each row of an output depends on one row of the
    matrix.

    The rows with the smallest and the largest values are included, because if float32 fails on any
    rows, it fails on these.
    """
    most = int(np.clip(MOST_SAMPLED // (8 * rows.shape[1]), 8, 64))
    sizes = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    ends = [int(sizes.argmin()), int(sizes.argmax())]
    return rows[np.union1d(chosen(len(rows), most, rng), ends)]


def chosen(count: int, most: int, rng: np.random.Generator) -> Array:
    """Indices of at most `most` of `count` elements, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(rng.choice(count, most, replace=False))
