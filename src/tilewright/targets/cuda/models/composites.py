"""Writes operations of PyTorch that consist of several steps as simpler ones, whose kernels may
then be joined with those of other operations.

    native_group_norm     view, native_layer_norm, view, mul, add
    native_batch_norm     view, native_layer_norm, view (of one image)
    nll_loss_forward      gather, neg, sum, differs, sum, div

It also leaves out operations without an influence on the result, such as the count of batches that
a batch normalisation keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Operation = Mapping[str, Any]
Said = Mapping[str, Any]
"""An array as the record of a model's operations names it."""
Named = list[tuple[str, Operation]]
"""Operations with the names of their results."""


def name_of(operation: Operation) -> str:
    """The name of an operation without its variant. It ends with `_` if the operation changes its
    first operand."""
    return str(operation["does"]).removeprefix("aten.").partition(".")[0]


def arrays_of(operation: Operation) -> list[Any]:
    """The arrays that an operation takes."""
    return [said for said in operation["given"] if isinstance(said, dict) and "array" in said]


def used(operations: Sequence[Operation], outputs: Sequence[str]) -> list[int]:
    """The places of the operations on which the outputs depend."""
    needed, found = set(outputs), list[int]()
    read = [str(said["array"]) for one in operations for said in arrays_of(one)]
    for place in reversed(range(len(operations))):
        one = operations[place]
        taken = [str(said["array"]) for said in arrays_of(one)]
        changes = name_of(one).endswith("_") and taken
        kept = changes and not (taken[0].startswith("self.") and read.count(taken[0]) == 1)
        if kept or any(f"{place}.{i}" in needed for i in range(len(one["gives"]))):
            needed.update(taken)
            found.append(place)
    return found[::-1]


def in_steps(place: int, operation: Operation) -> Named:
    """An operation with the name of its result, or the simpler operations that compute the same."""
    name = f"{place}.0"
    compose = _COMPOSITES.get(name_of(operation))
    if compose is None:
        return [(name, operation)]
    steps = _Steps(place)
    compose(steps, operation)
    return [*steps.found[:-1], (name, steps.found[-1][1])]


@dataclass
class _Steps:
    """Operations one after the other. The result of each is named after the composite's place."""

    place: int
    found: Named = field(default_factory=list)

    def __call__(
        self, does: str, shape: Sequence[int], *given: Any, dtype: str = "float32"
    ) -> Said:
        name = f"{self.place}.step {len(self.found)}"
        said = {"shape": list(shape), "dtype": f"torch.{dtype}"}
        self.found.append(
            (name, {"does": f"aten.{does}", "given": list(given), "words": {}, "gives": [said]})
        )
        return {"array": name, **said}

    def keep(self, operation: Operation, shape: Sequence[int]) -> None:
        """An operation that no kernel computes, as it is."""
        self(str(operation["does"]).removeprefix("aten."), shape, *operation["given"])

    def scaled(self, value: Said, weight: Any, bias: Any, along: Sequence[int]) -> Said:
        """A value times weights plus biases, if there are any, viewed with a shape."""
        shape = value["shape"]
        for does, said in (("mul.Tensor", weight), ("add.Tensor", bias)):
            if said is not None:
                value = self(does, shape, value, self("view.default", along, said, along))
        return value


def _group_norm(steps: _Steps, operation: Operation) -> None:
    value, weight, bias, images, channels, _, groups, least = operation["given"][:8]
    shape = value["shape"]
    size = math.prod(shape) // (images * groups)
    rows = [images * groups, size]
    viewed = steps("view.default", rows, value, rows)
    found = steps("native_layer_norm.default", rows, viewed, [size], None, None, least)
    found = steps("view.default", shape, found, shape)
    steps.scaled(found, weight, bias, [channels, *[1] * (len(shape) - 2)])


def _instance_norm(steps: _Steps, operation: Operation) -> None:
    """A batch normalisation of one image, with which PyTorch normalises each channel of several."""
    value, weight, bias, averages, _, training, _, least = operation["given"][:8]
    shape = value["shape"]
    if averages is not None or not training or shape[0] != 1 or len(shape) < 3:
        steps.keep(operation, shape)
        return
    rows = [shape[1], math.prod(shape[2:])]
    viewed = steps("view.default", rows, value, rows)
    found = steps("native_layer_norm.default", rows, viewed, rows[1:], None, None, least)
    found = steps("view.default", shape, found, shape)
    steps.scaled(found, weight, bias, [shape[1], *[1] * (len(shape) - 2)])


def _picked_loss(steps: _Steps, operation: Operation) -> None:
    value, target, weight, reduction, left_out = operation["given"][:5]
    rows = value["shape"][:1]
    if weight is not None or reduction not in (0, 1, 2) or len(value["shape"]) != 2:
        steps.keep(operation, ())
        return
    each = [*rows, 1]
    index = steps("unsqueeze.default", each, target, 1, dtype="int64")
    picked = steps("gather.default", each, value, 1, index)
    loss = steps("neg.default", rows, steps("squeeze.dim", rows, picked, 1))
    counted = steps("differs", rows, target, left_out)
    loss = steps("mul.Tensor", rows, loss, counted)
    if reduction:
        loss = steps("sum.dim_IntList", [], loss, [0])
    if reduction == 1:
        steps("div.Tensor", [], loss, steps("sum.dim_IntList", [], counted, [0]))


_COMPOSITES: Mapping[str, Callable[[_Steps, Operation], None]] = {
    "native_group_norm": _group_norm,
    "native_batch_norm": _instance_norm,
    "nll_loss_forward": _picked_loss,
}
