"""Sequences for several products one after the other: the best sequence of each product alone."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import IN_NEST
from tilewright.proposers.rewriter.planning.overlapped.extending import (
    Made,
    first_place,
    with_steps,
)
from tilewright.proposers.rewriter.planning.overlapped.sequences import overlapped_sequences
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.rewrites.one_nest import nests

CHOICES = 2
"""Number of sequences: the first one takes the best of each product, the next one the second."""
MOST = 4
"""Maximum number of products."""
WORDS = "pack"
"""The technique that is applied to the whole kernel at the end."""


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
            overlapped_sequences(part, machine, offered),
            key=lambda made: estimate(made[1], machine).total,
        )
        for part in parts
    ]
    for rank in range(min(CHOICES, max(map(len, found)))):
        made: Made = ((), kernel)
        for number, choices in enumerate(found, start=1):
            for step in choices[min(rank, len(choices) - 1)][0] if choices else ():
                if step.technique != WORDS:
                    inside = Step(IN_NEST, (f"#{number}", step.technique, *step.arguments))
                    made = with_steps((inside,), made, machine)
        yield first_place(made, machine, WORDS)
