"""The oracle of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.arithmetic import Format
from tilewright.parts.error_tracking import TrackedArray, narrowed
from tilewright.parts.float_error import follow
from tilewright.parts.inputs import Array
from tilewright.parts.problem import FormulaProblem, chosen
from tilewright.targets.trainium.problems.digits import HALF, TRANSPOSING
from tilewright.targets.trainium.shapes import Shape

MASKED = -9984.0
"""Score of a key that a query must not see."""
_MOST_QUERIES, _MOST_KEYS = 32, 128
_QUERIES = 256
"""Number of attention queries whose scores are computed together."""
_SCALE = 2.0**18
"""Factor of inputs that float16 cannot hold and bfloat16 and tfloat32 can; a power of two, so that
nothing else is rounded."""
_BY_QUERY = ("q", "seen", "before")
"""Operands of attention that have a row for each query."""


class AttentionProblem(FormulaProblem):
    """Attention in its five forms. Weights and values may be bfloat16 in the second product."""

    distributions = ("small", "sparse", "peaked", "far maxima", "shifted keys")
    """`peaked`: one score of each row is far above the others. `far maxima`: the largest scores of
    different rows differ by more than 100, so that no number can be subtracted from all. `sparse`
    has queries beyond the range of float16 and keys below it; `shifted keys` has values beyond it.
    """

    def __init__(self, shape: Shape) -> None:
        self.fingerprint = f"trainium {shape.kind} reference 2"
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
            values *= _SCALE if argument.name == "q" else 1 / _SCALE
        if distribution == "peaked" and argument.name == "q":
            values *= 4.0
        if distribution == "far maxima" and argument.name in "qk":
            self._move_apart(argument.name, values, rng)
        if distribution == "shifted keys" and argument.name == "k":
            values += 0.5
        if distribution == "shifted keys" and argument.name == "v":
            values *= _SCALE
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

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> dict[str, TrackedArray]:
        """All outputs, computed for some queries at a time, so that the scores are never stored
        completely."""
        operands = self.operands(inputs)
        queries = operands["q"].shape[-2]
        found: dict[str, list[TrackedArray]] = {}
        for first in range(0, queries, _QUERIES):
            part = slice(first, first + _QUERIES)
            some = {
                name: array[..., part, :] if name in _BY_QUERY else array
                for name, array in operands.items()
            }
            for name, values in follow(self.formula, some, (), numbers).items():
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


def _masked(scores: Any, seen: Any) -> Any:
    """Scores where `seen` is one, and otherwise a number far below them."""
    return scores * seen + (seen - 1.0) * -MASKED
