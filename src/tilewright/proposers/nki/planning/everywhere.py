"""Steps that are applied at all similar places at once, for kernels whose loops are written out.

Python code that differs from iteration to iteration is read as a sequence of statements. A single
step changes only little of such a kernel, and comparing all steps takes minutes. Instead, similar
instructions are changed together, and each technique is kept if it lowers the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from tilewright.proposers.nki.ir import Kernel, Op, ops, size_of
from tilewright.proposers.nki.planning.moves import carried_out
from tilewright.proposers.nki.planning.steps import Step, possible
from tilewright.proposers.nki.rewrites.engines import ENGINES

LARGE = 100
"""Number of statements from which on a kernel is rewritten at all similar places at once."""
LARGEST = 1000
"""Number of statements of the largest kernel that is rewritten."""
_REFUSALS = 24
"""Number of similar places that may refuse a step before the others are skipped. The first places
often refuse: no earlier instruction has loaded what they load."""
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {"engine": ENGINES, "strip": ("512", "1024", "2048")}
_SWEPT = (
    "accumulate", "reuse", "stored-type", "spread", "turn", "runs", "weave", "unfold", "separate",
    "land", "skip-copy", "take-over", "forward", "along", "merge", "accumulate", "defer", "strip",
    "engine",
)  # fmt: skip
"""Techniques for an instruction: first those that remove work, last those that divide what
remains."""
_SINGLY = ("window", "window", "hoist", "psum")
"""Techniques of which each place is kept if it lowers the estimate. Windows are loaded before the
inner loop, then before its enclosing loop."""

Made: TypeAlias = tuple[tuple[Step, ...], Kernel]
Kind: TypeAlias = tuple[object, ...]


def is_large(kernel: Kernel) -> bool:
    """Whether single steps change too little of a kernel and take too long to compare."""
    return size_of(kernel) > LARGE


def swept(
    kernel: Kernel,
    techniques: Sequence[str],
    cost_of: Callable[[Kernel], float],
    known: float | None = None,
) -> Made:
    """The kernel after the techniques that lower its cost, each applied at all places of one kind.

    `known` is the cost of the kernel, if it was computed before."""
    steps: tuple[Step, ...] = ()
    if size_of(kernel) > LARGEST:
        return steps, kernel
    cost = cost_of(kernel) if known is None else known
    for technique in (*_SWEPT, *_SINGLY):
        for change in _changes(kernel, technique) if technique in techniques else ():
            more, after = change(kernel)
            if more and (less := cost_of(after)) < cost:
                steps, kernel, cost = (*steps, *more), after, less
    return steps, kernel


def _changes(kernel: Kernel, technique: str) -> list[Callable[[Kernel], Made]]:
    """The changes that the technique can make: at all instructions of a kind, or to one tile."""
    if technique in _SINGLY:
        return [partial(_once, step=step) for step in possible(kernel, technique)]
    return [
        partial(_everywhere, technique=technique, kind=kind, argument=argument)
        for kind, argument in _kinds(kernel, technique)
    ]


def _once(kernel: Kernel, step: Step) -> Made:
    after = carried_out(kernel, step)
    return ((), kernel) if after is None else ((step,), after)


def _kinds(kernel: Kernel, technique: str) -> list[tuple[Kind, tuple[str, ...]]]:
    """Kinds of instructions that the technique can change, each with its further arguments."""
    every = list(ops(kernel.body))
    places = {int(step.arguments[0]) for step in possible(kernel, technique)}
    kinds = dict.fromkeys(_kind(every[number - 1], kernel) for number in sorted(places))
    values = _ARGUMENTS.get(technique)
    arguments: list[tuple[str, ...]] = [()] if values is None else [(value,) for value in values]
    return [(kind, argument) for kind in kinds for argument in arguments]


def _kind(op: Op, kernel: Kernel) -> Kind:
    """The common properties of similar instructions: the operation, and the types and memories of
    operands."""
    tensors = kernel.tensors()
    operands = ((tensors[r.tensor].memory, tensors[r.tensor].dtype) for _, r in op.regions)
    return (op.name, *(key for key, _ in op.arguments), *operands)


def _everywhere(kernel: Kernel, technique: str, kind: Kind, argument: tuple[str, ...]) -> Made:
    """The kernel after the technique was applied at every instruction of a kind that allows it."""
    steps: tuple[Step, ...] = ()
    number, refused = 1, 0
    every = list(ops(kernel.body))
    while number <= len(every) and refused < _REFUSALS:
        if _kind(every[number - 1], kernel) != kind:
            number += 1
            continue
        step = Step(technique, (str(number), *argument))
        after = carried_out(kernel, step)
        if after is None:
            number, refused = number + 1, refused + (not steps)
            continue
        steps, kernel = (*steps, step), after
        before, every = len(every), list(ops(after.body))
        number = max(number, number + 1 + len(every) - before)  # some may be removed or new
    return steps, kernel
