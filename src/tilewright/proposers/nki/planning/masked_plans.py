"""Complete sequences for kernels with a mask, which remove the columns that the mask hides.

In a kernel without hidden blocks, every part of a loop is separate. Such a kernel is large, and a
step improves only one part. Therefore, steps that improve all parts come first, and afterwards
every useful step is taken, not only the best one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from tilewright.proposers.descent import descended
from tilewright.proposers.nki.ir import Kernel, Loop, ops, size_of
from tilewright.proposers.nki.planning.moves import Moves, carried_out, cost_of
from tilewright.proposers.nki.planning.steps import Step, possible

MASKED = "skip-masked"
_BEFORE = ("hoist", "merge")
_AFTER: Mapping[str, str] = {"skip-copy": "tensor_copy", "merge": "tensor_reduce"}
"""The instructions at which a technique is tried."""
_MOST_BEFORE, _EVERY = 12, 1 << 20
_LARGEST = 1000
"""Maximum number of statements of a kernel from which hidden blocks are removed."""

Made: TypeAlias = tuple[tuple[Step, ...], Kernel]


def masked_sequences(kernel: Kernel, techniques: Sequence[str]) -> Iterator[Made]:
    """Sequences that remove what a mask hides, for several numbers of parts. More parts remove
    more.

    Loads and merged instructions come first. Then iterations of one innermost loop are run
    together, if that is faster without the hidden part.
    """
    if next(_skips(kernel), None) is None:
        return
    before = tuple(t for t in _BEFORE if t in techniques)
    start = descended(Moves(before), (), kernel, random.Random(0), _MOST_BEFORE, _EVERY)
    openers = [start]
    if "jam" in techniques:
        openers += _jammed(*start)
    first = [(cost_of(made[1]), number) for number, opener in enumerate(openers)
             for made in islice(_skips(opener[1]), 1)]  # fmt: skip
    if not first:
        return
    steps, kernel = openers[min(first)[1]]
    for step, after in _skips(kernel):
        if size_of(after) <= _LARGEST:
            yield _swept(tuple(t for t in _AFTER if t in techniques), (*steps, *step), after)


def _skips(kernel: Kernel) -> Iterator[Made]:
    """The kernel without what a mask hides, for several numbers of parts; each kernel once."""
    seen: list[Kernel] = []
    for step in possible(kernel, MASKED):
        after = carried_out(kernel, step)
        if after is not None and after not in seen:
            seen.append(after)
            yield (step,), after


def _jammed(steps: tuple[Step, ...], kernel: Kernel) -> Iterator[Made]:
    """The kernel with iterations of one innermost loop of several instructions run together."""
    innermost = {
        loop.variable
        for _, loop in kernel.statements()
        if isinstance(loop, Loop)
        and len(loop.body) > 1
        and not any(isinstance(s, Loop) for s in loop.body)
    }
    for step in possible(kernel, "jam"):
        after = carried_out(kernel, step) if step.arguments[0] in innermost else None
        if after is not None:
            yield (*steps, step), after


def _swept(techniques: Sequence[str], steps: tuple[Step, ...], kernel: Kernel) -> Made:
    """The kernel with every copy skipped and then every reduction merged, if this lowers the
    estimate."""
    cost = cost_of(kernel)
    for technique in techniques:
        number = 0
        while True:
            named = (n for n, op in enumerate(ops(kernel.body), 1) if op.name == _AFTER[technique])
            number = next((n for n in named if n > number), 0)
            if not number:
                break
            step = Step(technique, (str(number),))
            after = carried_out(kernel, step)
            if after is not None and (less := cost_of(after)) < cost:
                steps, kernel, cost = (*steps, step), after, less
                number -= 1  # one instruction was removed
    return steps, kernel
