"""The oracles: the definition of each workload as a formula in float64.

If a kernel may store values in bfloat16 (eight binary digits), the formula rounds at that place,
and the allowed error follows from it (`parts.float_error`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.arithmetic import SINGLE
from tilewright.parts.cases import LARGE
from tilewright.parts.computed import computed
from tilewright.parts.float_error import follow
from tilewright.parts.followed import Followed, narrowed
from tilewright.parts.inputs import Array, bytes_of
from tilewright.parts.problem import (
    FormulaProblem,
    Problem,
    chosen,
    products_of,
    sampled_product,
    sampled_rows,
)
from tilewright.targets.trainium.shapes import Shape

HALF = 8
"""Binary digits of bfloat16."""
TRANSPOSING = 11
"""Binary digits that float32 operands keep in a product with is_transpose."""
MASKED = -9984.0
"""Score of a key that a query must not see."""
_MOST_QUERIES, _MOST_KEYS = 32, 128
_QUERIES = 256
"""Number of attention queries whose scores are computed together."""
_BY_QUERY = ("q", "seen", "before")
"""Operands of attention that have a row for each query."""
_IN_CACHE = 1 << 17  # elements of float64
_ROWS = {"cumsum": "x", "rmsnorm": "a", "layernorm": "input_tensor"}


class RowProblem(FormulaProblem):
    """Normalisations and running sums, in which each output row depends on one input row."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = shape.sizes[1]
        self._kind = shape.kind

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The inputs; for a running sum, also the last column that each output adds."""
        if self._kind != "cumsum":
            return inputs
        return {**inputs, "ends": np.arange(inputs["x"].shape[1])}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Followed]:
        """All outputs, computed for some rows at a time so that they stay in a processor's
        cache."""
        operands = self.operands(inputs)
        name = _ROWS[self._kind]
        rows = operands[name]
        exact = np.empty(rows.shape)
        deviation = np.empty(rows.shape)
        step = max(1, _IN_CACHE // rows.shape[1])
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            found = follow(self.formula, {**operands, name: rows[part]})["out"]
            exact[part], deviation[part] = found.exact, found.deviation
        return {"out": Followed(exact, deviation, [], ())}

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out` from the rows and, for normalisations, their weights."""
        if self._kind == "cumsum":
            rows = operands["x"]
            summed = np.arange(rows.shape[1])[:, None] <= operands["ends"]
            return {"out": rows @ summed.astype(np.float64)}
        if self._kind == "rmsnorm":
            rows = operands["a"]
            return {"out": rows / np.sqrt((rows * rows).mean(-1, keepdims=True)) * operands["g"]}
        rows = operands["input_tensor"]
        centred = rows - rows.mean(-1, keepdims=True)
        spread = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return {"out": centred / spread * operands["gamma_vector"] + operands["beta_vector"]}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows; for a running sum, some columns."""
        name = _ROWS[self._kind]
        found = {**operands, name: sampled_rows(operands[name], rng)}
        if self._kind == "cumsum":
            found["ends"] = operands["ends"][chosen(len(operands["ends"]), 32, rng)]
        return found


class ScanProblem(FormulaProblem):
    """The selective scan of mamba. A is negative and delta positive, as in the authors' model."""

    fingerprint = "trainium mamba reference 1"
    distributions = ("small", "sparse", "long memory", "large steps", "mixed scales")

    def __init__(self, shape: Shape) -> None:
        self.reduction = shape.sizes[2]

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one argument."""
        if argument.name == "A":
            values = -rng.random(argument.shape)
        elif argument.name == "delta":
            least, most = {"long memory": (1e-4, 1e-3), "large steps": (1.0, 9.0)}.get(
                distribution, (0.01, 1.0)
            )
            values = rng.uniform(least, most, argument.shape)
        else:
            values = rng.standard_normal(argument.shape)
            if distribution == "sparse":
                values *= rng.random(argument.shape) < 0.1
            if distribution == "mixed scales" and argument.name == "u":
                values *= 10.0 ** rng.integers(-3, 4, (*argument.shape[:-1], 1))
        return values.astype(argument.dtype)

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out`, float32[batch][channels][steps]."""
        delta, u, gain, read = (operands[name] for name in ("delta", "u", "B", "C"))
        driven = delta * u
        state: Any = 0.0
        steps = []
        for t in range(delta.shape[-1]):
            decay = np.exp(delta[:, :, t : t + 1] * operands["A"])
            fresh = driven[:, :, t : t + 1] * gain[:, None, :, t]
            state = fresh if t == 0 else decay * state + fresh
            steps.append((state * read[:, None, :, t]).sum(-1))
        return {"out": np.stack(steps, axis=-1)}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some channels over all steps, because errors grow along the steps."""
        some = chosen(operands["delta"].shape[1], 4, rng)
        found = {name: operands[name][:, some] for name in ("delta", "u")}
        return {**operands, **found, "A": operands["A"][some]}


class AttentionProblem(FormulaProblem):
    """Attention in its five forms. Weights and values may be bfloat16 in the second product."""

    distributions = ("small", "sparse", "peaked", "far maxima", "shifted keys")
    """`peaked`: one score of each row is far above the others. `far maxima`: the largest scores of
    different rows differ by more than 100, so that no number can be subtracted from all."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = 128
        self._kind = shape.kind
        self._tile = shape.sizes[2] if shape.kind == "attention_tile" else 0

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of q, k, v, or of the results of an earlier query tile."""
        if argument.name == "tile_mask":
            queries = 128 * self._tile + np.arange(argument.shape[0])[:, None]
            mask: Array = np.arange(argument.shape[1])[None, :] <= queries
            return mask.astype(argument.dtype)
        values = rng.standard_normal(argument.shape)
        if argument.name == "olm_prev":
            values[:, -2] = rng.uniform(1, 100, len(values))
            values[:, -1] = rng.uniform(-5, 20, len(values))
            return values.astype(argument.dtype)
        if argument.name in "qk":
            values *= 0.6
        if distribution == "sparse" and argument.name != "v":
            values *= rng.random(argument.shape) < 0.2
        if distribution == "peaked" and argument.name == "q":
            values *= 4.0
        if distribution == "far maxima" and argument.name in "qk":
            self._move_apart(argument.name, values, rng)
        if distribution == "shifted keys" and argument.name == "k":
            values += 0.5
        return values.astype(np.float32).astype(argument.dtype)

    def _move_apart(self, name: str, values: Array, rng: np.random.Generator) -> None:
        """One component of all keys is 16. That of the queries moves a row's scores by -128, 0 or
        128.

        These numbers are exact in bfloat16, so the weights lose no digits.
        """
        depth = -1
        if self._kind in ("attention", "attention_tile"):
            depth = 0
        elif name == "k" and self._kind != "sd_attention":
            depth = -2
        component = np.moveaxis(values, depth, 0)[0]
        if name == "k":
            component[...] = 16.0
        else:
            step = 64.0 if self._kind == "sd_attention" else 8.0
            component[...] = step * rng.integers(-1, 2, component.shape)

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Queries by depth, keys by depth and values by depth, after the axes of heads."""
        real = {
            name: array if array.dtype == np.uint8 else array.astype(np.float32)
            for name, array in inputs.items()
        }
        q, k, v = real["q"], real["k"], real["v"]
        if self._kind == "attention":
            return {"q": q.T, "k": k.T, "v": v.T}
        if self._kind == "sd_attention":
            return {"q": q, "k": k, "v": v}
        if self._kind == "attention_tile":
            # Later keys are masked, whatever their values are.
            count = 128 * (self._tile + 1)
            first = 128 * self._tile
            values = v.transpose(1, 0, 2).reshape(-1, v.shape[2])
            return {
                "q": q.T[first:count],
                "k": k.T[:count],
                "v": values[:count],
                "before": real["olm_prev"],
                "seen": real["tile_mask"][:, :count].astype(np.float32),
            }
        seen = np.tril(np.ones((q.shape[-2], q.shape[-2]), np.float32))
        return {"q": q, "k": k.swapaxes(-1, -2), "v": v, "seen": seen}

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Followed]:
        """All outputs, computed for some queries at a time, so that the scores are never stored
        completely."""
        operands = self.operands(inputs)
        queries = operands["q"].shape[-2]
        found: dict[str, list[Followed]] = {}
        for first in range(0, queries, _QUERIES):
            part = slice(first, first + _QUERIES)
            some = {
                name: array[..., part, :] if name in _BY_QUERY else array
                for name, array in operands.items()
            }
            for name, values in follow(self.formula, some).items():
                found.setdefault(name, []).append(values)
        whole: dict[str, Any] = {}
        for name, parts in found.items():
            whole[name] = np.concatenate(parts, axis=-2)
        return whole

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the form."""
        q, k, v = (operands[name] for name in "qkv")
        if self._kind in ("sd_attention", "attention_tile"):
            q, k = narrowed(q, HALF), narrowed(k, HALF)
        if self._kind == "attention":
            q, k = narrowed(q, TRANSPOSING), narrowed(k, TRANSPOSING)
        scores = q @ k.swapaxes(-1, -2)
        if self._kind == "sd_attention":
            scores = scores * 0.125
        if "seen" in operands:
            scores = _masked(scores, operands["seen"])
        top = scores.max(-1, keepdims=True)
        before = operands.get("before")
        if before is not None:
            top = np.maximum(top, before[:, -1:])
        weights = narrowed(np.exp(scores - top), HALF)
        total = weights.sum(-1, keepdims=True)
        product = weights @ narrowed(v, HALF)
        if before is not None:
            kept = np.exp(before[:, -1:] - top)
            product = product + kept * before[:, :-2]
            total = total + kept * before[:, -2:-1]
            joined = np.concatenate([product, total, top], axis=-1)
            return {"olm": narrowed(joined, HALF)}
        if self._kind in ("attention", "sd_attention"):
            return {"out": product / total}
        sums = np.log(total) + top
        if self._kind == "multihead_attention":
            sums, top = narrowed(sums, HALF), narrowed(top, HALF)
        return {"o": narrowed(product, HALF), "l": sums, "m": top}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some queries and keys of one head, because most of the error comes from bfloat16
        weights."""
        found = dict(operands)
        if operands["q"].ndim == 3:
            head = int(rng.integers(len(operands["q"])))
            found |= {name: operands[name][head] for name in "qkv"}
        queries = chosen(len(found["q"]), _MOST_QUERIES, rng)
        keys = chosen(len(found["k"]), _MOST_KEYS, rng)
        found |= {"q": found["q"][queries], "k": found["k"][keys], "v": found["v"][keys]}
        if "seen" in found:
            found["seen"] = found["seen"][queries][:, keys]
        if "before" in found:
            found["before"] = found["before"][queries]
        return found


class ExactProblem:
    """Kernels that only move or compare values, whose results have no rounding errors."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = 1
        self._shape = shape

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """`out` with the values of `x`."""
        given = inputs["x"]
        if self._shape.kind == "transpose":
            return {"out": np.ascontiguousarray(given.swapaxes(1, 2))}
        size = self._shape.sizes[2]
        rows, columns = given.shape[0] - size + 1, given.shape[1] - size + 1
        across = given[:, :columns]
        for i in range(1, size):
            across = np.maximum(across, given[:, i : i + columns])
        found = across[:rows]
        for i in range(1, size):
            found = np.maximum(found, across[i : i + rows])
        return {"out": found}


class LargeExactProblem(ExactProblem):
    """The same with hundreds of megabytes of inputs, which are drawn in a fraction of the time.

    Three distributions show what the usual ones of large tasks show: rounded values, parts that are
    far smaller or larger than others, and maxima that were started at 0.
    """

    distributions = ("small", "mixed scales", "shifted below")

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.fingerprint += ", large"

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of the input; each row of `mixed scales` has a power of two as its scale."""
        values = rng.random(argument.shape, np.float32)
        values -= np.float32(0.5)
        if distribution == "mixed scales":
            powers = rng.integers(-20, 21, (*argument.shape[:-1], 1))
            values *= np.ldexp(np.float32(1), powers).astype(np.float32)
        if distribution == "shifted below":
            values -= np.float32(1000)
        return values


class ElementProblem(FormulaProblem):
    """Rotary embeddings and depthwise convolutions, with few products for each element."""

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self.reduction = shape.sizes[3] if shape.kind == "conv1d" else 2
        self._kind = shape.kind

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """`out`, with the axes of the input."""
        if self._kind == "rope":
            cos, sin = operands["cos"], operands["sin"]
            half = len(cos)
            even, odd = operands["x_in"][:half], operands["x_in"][half:]
            return {"out": np.concatenate([even * cos - odd * sin, odd * cos + even * sin])}
        image, taps = operands["img"], operands["filt"]
        width, count = image.shape[-1], taps.shape[-1]
        before = (count - 1) // 2
        padded = np.pad(image, [(0, 0), (0, 0), (0, 0), (before, count - 1 - before)])
        parts = [padded[..., t : t + width] * taps[None, :, :, 0, t, None] for t in range(count)]
        return {"out": np.stack(parts, axis=-1).sum(-1)}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some columns, or the channels of one image."""
        if self._kind == "rope":
            some = chosen(operands["cos"].shape[1], 256, rng)
            return {name: array[:, some] for name, array in operands.items()}
        some = chosen(operands["img"].shape[1], 16, rng)
        return {"img": operands["img"][:1, some], "filt": operands["filt"][some]}


class ProductProblem(FormulaProblem):
    """Matrix products and 3x3 convolutions whose operands may be bfloat16.

    One set of inputs has rows and columns of every distribution, because a run at full size takes
    seconds.
    """

    distributions = ("mixed",)
    _SCALES = (1.0, 100.0, 1e-3, 1.0, 1.0, 1.0)

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 1"
        self._kind = shape.kind
        self.reduction = shape.sizes[2] if shape.kind == "gemm" else 9 * shape.sizes[1]
        self._output_digits = HALF if shape.kind == "gemm" else 24

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Matrices with columns, and images with channels of pixels, that each have one
        distribution.

        Along the axis that is not summed, neighbouring groups of varying length have the same
        distribution: small and large values, sparse ones, shifted means and equal values.
        """
        values = rng.standard_normal(argument.shape, np.float32)
        axis = 1 if self._kind == "gemm" else 0
        lines = argument.shape[axis]
        kinds = rng.integers(0, len(self._SCALES), lines)
        for line in range(lines):
            part = values[:, line] if axis else values[line]
            part *= self._SCALES[kinds[line]]
            if kinds[line] == 3:
                part *= rng.random(part.shape, np.float32) < 0.05
            if kinds[line] == 4:
                part += 30.0
            if kinds[line] == 5:
                part[...] = part.flat[0]
        return values.astype(argument.dtype, copy=False)

    def operands(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The operands, unchanged."""
        return inputs

    def formula(self, operands: Mapping[str, Any]) -> dict[str, Any]:
        """The product of two matrices."""
        left, right = narrowed(operands["left"], HALF), narrowed(operands["right"], HALF)
        found = left @ right
        return {"out": narrowed(found, HALF) if self._output_digits == HALF else found}

    def sample(
        self, operands: Mapping[str, Array], rng: np.random.Generator
    ) -> Mapping[str, Array]:
        """Some rows of one matrix and columns of the other. The rows of a convolution are
        patches."""
        if self._kind == "gemm":
            left, right = sampled_product(operands["lhsT"].T, operands["rhs"], rng)
            return {"left": left.astype(np.float32), "right": right.astype(np.float32)}
        image, filters = operands["img"], operands["filt"]
        height, width = image.shape[2:]
        padded = np.pad(image[:, :, :, :], [(0, 0), (0, 0), (1, 1), (1, 1)])
        places = rng.integers(0, (len(image), height, width), (24, 3))
        patches = [padded[n, :, y : y + 3, x : x + 3].ravel() for n, y, x in places]
        some = chosen(len(filters), 24, rng)
        right = filters[some].reshape(len(some), -1).T
        return {"left": np.stack(patches), "right": np.ascontiguousarray(right)}

    def elements(
        self, operands: Mapping[str, Array], output: str, places: Array
    ) -> Mapping[str, Array]:
        """The sum for each element: a row times a column, or a patch times a filter."""
        if self._kind == "gemm":
            rows, columns = places.T
            left, right = operands["lhsT"][:, rows].T, operands["rhs"][:, columns].T
        else:
            padded = np.pad(operands["img"], [(0, 0), (0, 0), (1, 1), (1, 1)])
            patches = [padded[n, :, y : y + 3, x : x + 3].ravel() for n, _, y, x in places]
            left, right = np.stack(patches), operands["filt"][places[:, 1]].reshape(len(places), -1)
        return products_of(left.astype(np.float32), right.astype(np.float32))

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, Followed]:
        """All outputs. The deviations are those of sums whose terms have the same mean square."""
        if self._kind == "gemm":
            left = inputs["lhsT"].astype(np.float64).T
            right = inputs["rhs"].astype(np.float64)
            # Before the product, because the squares need additional memory.
            norms: Norms = _OfRowAndColumn((left**2).sum(1), (right**2).sum(0))
            exact = left @ right
        else:
            exact, norms = _convolved(inputs["img"], inputs["filt"])
        # Each operand may be rounded to bfloat16, and each product's sum to float32.
        share = 0.0 if inputs_are_half(inputs) else 2 * 4.0**-HALF
        factor = (share + SINGLE.unit_roundoff**2) / self.reduction
        deviations = _Deviations(exact.reshape(-1), norms, factor, 2.0**-self._output_digits)
        return {"out": Followed(exact, computed(deviations, exact.shape), [], ())}


@dataclass(frozen=True)
class _OfRowAndColumn:
    """Squared norms of a row of one matrix multiplied by those of a column of the other."""

    left: Array
    right: Array

    @property
    def width(self) -> int:
        return len(self.right)

    def of_rows(self, rows: Array) -> Array:
        found: Array = self.left[rows, None] * self.right
        return found


@dataclass(frozen=True)
class _OfPatchAndFilter:
    """Squared norms of a patch of an image, [n, y and x], multiplied by those of a filter."""

    patches: Array
    filters: Array

    @property
    def width(self) -> int:
        return int(self.patches.shape[1])

    def of_rows(self, rows: Array) -> Array:
        image, output = np.divmod(rows, len(self.filters))
        found: Array = self.patches[image] * self.filters[output, None]
        return found


Norms: TypeAlias = _OfRowAndColumn | _OfPatchAndFilter
"""The norms from which the deviation of each output element follows, as rows of `width`
elements."""


@dataclass(frozen=True)
class _Deviations:
    """The deviations of a part of the output, computed from norms, because arrays of the full size
    would take gigabytes."""

    exact: Array
    norms: Norms
    factor: float
    last_rounding: float

    def __call__(self, part: slice) -> Array:
        width = self.norms.width
        first, end = part.start // width, -(-part.stop // width)
        norms = self.norms.of_rows(np.arange(first, end)).reshape(-1)
        deviation = norms[part.start - first * width : part.stop - first * width]
        deviation *= self.factor
        deviation += (self.last_rounding * self.exact[part]) ** 2
        return np.sqrt(deviation, out=deviation)


def inputs_are_half(inputs: Mapping[str, Array]) -> bool:
    """Whether all given operands are bfloat16."""
    return all(array.dtype.itemsize == 2 for array in inputs.values())


def _convolved(image: Array, filters: Array) -> tuple[Array, _OfPatchAndFilter]:
    """The convolution, and squared norms of patches and of filters, in float64."""
    count, channels, height, width = image.shape
    outputs = len(filters)
    exact = np.zeros((count, outputs, height * width))
    norms = np.zeros((count, height * width))
    weights = filters.astype(np.float64)
    for n in range(count):
        padded = np.pad(image[n].astype(np.float64), [(0, 0), (1, 1), (1, 1)])
        squares = (padded**2).sum(0)
        for y in range(3):
            for x in range(3):
                part = padded[:, y : y + height, x : x + width].reshape(channels, -1)
                exact[n] += weights[:, :, y, x] @ part
                norms[n] += squares[y : y + height, x : x + width].ravel()
    of_filters = (weights.reshape(outputs, -1) ** 2).sum(1)
    return exact.reshape(count, outputs, height, width), _OfPatchAndFilter(norms, of_filters)


def _masked(scores: Any, seen: Any) -> Any:
    """Scores where `seen` is one, and otherwise a number far below them."""
    return scores * seen + (seen - 1.0) * -MASKED


def create_problem(shape: Shape) -> Problem:
    """The oracle of a shape."""
    kinds: Sequence[tuple[Sequence[str], Any]] = (
        (("rmsnorm", "layernorm", "cumsum"), RowProblem),
        (("mamba",), ScanProblem),
        (("transpose", "maxpool"), ExactProblem),
        (("rope", "conv1d"), ElementProblem),
        (("gemm", "conv2d"), ProductProblem),
    )
    for names, problem in kinds:
        if shape.kind in names:
            if problem is ExactProblem and bytes_of(shape.arguments) >= LARGE:
                return LargeExactProblem(shape)
            found: Problem = problem(shape)
            return found
    return AttentionProblem(shape)
