"""Writes operations of PyTorch that consist of several steps as simpler ones, whose kernels may
then be joined with those of other operations.

    native_group_norm     view, native_layer_norm, view, mul, add
    native_batch_norm     sum, sum, div, sub, mul, sum, sum, div, add, rsqrt, mul, mul, add
    convolution           flip, view, transpose, view, convolution (transposed)
    split                 slice, slice
    nll_loss_forward      gather, neg, sum, differs, sum, div
    scaled_dot_product_attention    transpose, bmm, mul, where, _softmax, bmm

It also leaves out operations without an influence on the result, such as the count of batches that
a batch normalisation keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.cuda.models.places import OtherError

_IN_PARTS = {"split", "unsafe_split", "split_with_sizes", "unbind", "chunk"}
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
    given = list[Any]()
    for said in operation["given"]:
        given += said if isinstance(said, list) else [said]
    return [said for said in given if isinstance(said, dict) and "array" in said]


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
    if name_of(operation) in _IN_PARTS:
        return _parts(operation, place)
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
        """An unchanged operation that no kernel computes."""
        self(str(operation["does"]).removeprefix("aten."), shape, *operation["given"])

    def reduced(self, name: str, value: Said, axes: Sequence[int]) -> Said:
        """A value reduced along axes, whose extents become 1. Each step takes adjacent axes."""
        does = {"sum": "sum.dim_IntList", "mean": "mean.dim"}.get(name, f"{name}.default")
        left = sorted(axes)
        while left:
            last = [left.pop()]
            while left and left[-1] == last[0] - 1:
                last.insert(0, left.pop())
            shape = [1 if i in last else size for i, size in enumerate(value["shape"])]
            value = self(does, shape, value, last, True)
        return value

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


def _batch_norm(steps: _Steps, operation: Operation) -> None:
    """A batch normalisation by the batch's own mean and variance, or by kept ones.

    PyTorch normalises each channel of several images as one image.
    """
    value, weight, bias, average, variance, training, _, least = operation["given"][:8]
    shape = value["shape"]
    channels = [shape[1], *[1] * (len(shape) - 2)]
    if training and shape[0] == 1 and len(shape) > 2 and average is None:
        rows = [shape[1], math.prod(shape[2:])]
        viewed = steps("view.default", rows, value, rows)
        found = steps("native_layer_norm.default", rows, viewed, rows[1:], None, None, least)
        found = steps("view.default", shape, found, shape)
    else:
        if training:
            axes = [0, *range(2, len(shape))]
            size = math.prod(shape) // shape[1]
            total = steps.reduced("sum", value, axes)
            average = steps("div.Scalar", total["shape"], total, size)
            off = steps("sub.Tensor", shape, value, average)
            square = steps("mul.Tensor", shape, off, off)
            total = steps.reduced("sum", square, axes)
            variance = steps("div.Scalar", total["shape"], total, size)
        else:
            average, variance = (
                steps("view.default", channels, said, channels) for said in (average, variance)
            )
            off = steps("sub.Tensor", shape, value, average)
        safe = steps("add.Scalar", variance["shape"], variance, least)
        scale = steps("rsqrt.default", variance["shape"], safe)
        found = steps("mul.Tensor", shape, off, scale)
    steps.scaled(found, weight, bias, channels)


def _reduction(steps: _Steps, operation: Operation) -> None:
    """A reduction along axes that are not adjacent, as two or more."""
    value, said = [*operation["given"], None][:2]
    shape = operation["gives"][0]["shape"]
    name = name_of(operation)
    axes = sorted(axis % len(value["shape"]) for axis in said) if isinstance(said, list) else []
    if not axes or axes == list(range(axes[0], axes[-1] + 1)):
        steps.found.append(("", operation))
        return
    steps("view.default", shape, steps.reduced(name, value, axes), shape)


def _loss(steps: _Steps, operation: Operation) -> None:
    """The mean or sum of an element-wise loss."""
    value, target, reduction, *more = [*operation["given"], 1][: max(3, len(operation["given"]))]
    off = steps("sub.Tensor", value["shape"], value, target)
    found = steps(f"{name_of(operation)}_of.default", value["shape"], off, *more)
    if reduction:
        steps("mean.default" if reduction == 1 else "sum.default", [], found)


def _convolution(steps: _Steps, operation: Operation) -> None:
    """A transposed convolution is one of images with zeros between their elements, by mirrored
    filters."""
    images, filters, bias, stride, padding, dilation, transposed, _, groups = operation["given"]
    if not transposed:
        steps.found.append(("", operation))
        return
    given, each, *window = filters["shape"]
    axes = list(range(2, 2 + len(window)))
    stride, padding, dilation = (
        list(said) if len(said) == len(window) else list(said) * len(window)
        for said in (stride, padding, dilation)
    )
    found = steps("flip.default", filters["shape"], filters, axes)
    parts = [groups, given // groups, each, *window]
    found = steps("view.default", parts, found, parts)
    swapped = [groups, each, given // groups, *window]
    found = steps("transpose.int", swapped, found, 1, 2)
    whole = [groups * each, given // groups, *window]
    found = steps("view.default", whole, found, whole)
    around = [d * (w - 1) - p for d, w, p in zip(dilation, window, padding, strict=True)]
    one = [1] * len(window)
    steps("convolution.default", operation["gives"][0]["shape"], images, found, bias, one, around,
          dilation, False, one, groups, stride)  # fmt: skip


def _parts(operation: Operation, place: int) -> Named:
    """The parts of an array as operations of their own."""
    source, *more = operation["given"]
    name, found, start = name_of(operation), list[tuple[str, Operation]](), 0
    axis = more[0] if name == "unbind" and more else more[1] if len(more) > 1 else 0
    for number, said in enumerate(operation["gives"]):
        if name == "unbind":
            does, given = "select.int", [source, axis, number]
        else:
            end = start + said["shape"][axis]
            # The parts of `unsafe_split` may be changed in place, because nothing else reads them.
            does = "slice_copy.Tensor" if name == "unsafe_split" else "slice.Tensor"
            given = [source, axis, start, end, 1]
            start = end
        one = {"does": f"aten.{does}", "given": given, "words": {}, "gives": [said]}
        found.append((f"{place}.{number}", one))
    return found


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


def _attention(steps: _Steps, operation: Operation) -> None:
    """softmax(Q K^T * scale) V for several heads, with or without a causal mask."""
    query, key, value, *more = operation["given"]
    dropout, is_causal = [*more, *[False, False][len(more) :]][:2]
    words = operation["words"]
    *heads, rows, width = query["shape"]
    columns = key["shape"][-2]
    if dropout or words.get("attn_mask") is not None or key["shape"][:-2] != heads:
        raise OtherError("its attention has a mask that is an array, dropout or fewer keys")
    images, scores = math.prod(heads), [*heads, rows, columns]

    def viewed(said: Said, shape: list[int]) -> Said:
        return steps("view.default", shape, said, shape)

    left = viewed(query, [images, rows, width])
    turned = steps("transpose.int", [images, width, columns],
                   viewed(key, [images, columns, width]), 1, 2)  # fmt: skip
    found = viewed(steps("bmm.default", [images, rows, columns], left, turned), scores)
    scale = words.get("scale")
    found = steps("mul.Tensor", scores, found, width**-0.5 if scale is None else scale)
    if is_causal:
        ones = steps("ones.default", [rows, columns], [rows, columns], dtype="bool")
        mask = steps("tril.default", [rows, columns], ones, dtype="bool")
        found = steps("where.self", scores, mask, found, -math.inf)
    found = steps("_softmax.default", scores, found, len(scores) - 1, False)
    found = steps("bmm.default", [images, rows, value["shape"][-1]],
                  viewed(found, [images, rows, columns]),
                  viewed(value, [images, columns, value["shape"][-1]]))  # fmt: skip
    viewed(found, operation["gives"][0]["shape"])


def _softmax_of_some(steps: _Steps, operation: Operation) -> None:
    """A softmax that is 0 in rows of minus infinity. A kernel gives no number there, so it fails
    its check if there are such rows."""
    value, axis = operation["given"][:2]
    steps("_softmax.default", value["shape"], value, axis, False)


_COMPOSITES: Mapping[str, Callable[[_Steps, Operation], None]] = {
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "convolution": _convolution,
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduction),
    **dict.fromkeys(("mse_loss", "smooth_l1_loss", "huber_loss"), _loss),
    "nll_loss_forward": _picked_loss,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_safe_softmax": _softmax_of_some,
}
