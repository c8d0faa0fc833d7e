"""Sequences for several products one after the other: the best sequence of each product alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import IN_NEST
from tilewright.proposers.rewriter.planning.overlapped.extending import (
    Made,
    with_steps,
)
from tilewright.proposers.rewriter.planning.overlapped.sequences import (
    FINISHING,
    finished,
    overlapped_sequences,
    streamed,
)
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.rewrites.one_nest import nests

CHOICES = 2
"""Number of sequences by rank: the first one takes the best of each product, the next one the
second."""
MOST = 4
"""Maximum number of products."""


def sequences_of_products(kernel: Kernel, machine: Machine, offered: Set[str]) -> Iterator[Made]:
    """Sequences that overlap the moves of each product with its own products; none for a single
    product."""
    try:
        parts = nests(kernel, machine)
    except NotApplicable:
        return
    if not 2 <= len(parts) <= MOST:
        return
    found = [
        sorted(
            (((), part), *overlapped_sequences(part, machine, offered)),
            key=lambda made: estimate(made[1], machine).total,
        )
        for part in parts
    ]
    streams = [next(streamed(part, machine), None) for part in parts]
    if any(streams):
        best = [choices[0] if choices else None for choices in found]
        yield _joined([s or b for s, b in zip(streams, best, strict=True)], kernel, machine)
    for rank in range(min(CHOICES, max(map(len, found)))):
        chosen = [choices[min(rank, len(choices) - 1)] if choices else None for choices in found]
        yield _joined(chosen, kernel, machine)


def _joined(chosen: Sequence[Made | None], kernel: Kernel, machine: Machine) -> Made:
    """The kernel in which each product has its own sequence."""
    made: Made = ((), kernel)
    for number, choice in enumerate(chosen, start=1):
        for step in choice[0] if choice is not None else ():
            if step.technique not in FINISHING:
                inside = Step(IN_NEST, (f"#{number}", step.technique, *step.arguments))
                made = with_steps((inside,), made, machine)
    return finished(made, machine)
