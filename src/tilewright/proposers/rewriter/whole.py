"""Sequences that carry out all that helps a recurrence at once.

Random steps rarely make these together, and some cost time alone: results stay in local memory only
once the core computes nothing on them, and copies between steps go only once nothing else moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tilewright.core.records import MenuOption
from tilewright.proposers.rewriter.catalogue import Step, steps_for
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine

RECURRENCE = (
    "offload",
    "transpose",
    "share",
    "forward",
    "carry",
    "hoist-loads",
    "fences",
    "dead-code",
    "early-loads",
    "own-rows",
    "widen",
    "pack",
)
"""Techniques in the order in which each finds what the ones before it made possible.

Signs go to matrices before vectors are rows: a row may then be handed on as it is.
"""
MOST = 16
"""Places of one technique that a sequence uses, at most."""


def sequences(
    kernel: Kernel, machine: Machine, offered: Set[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """The steps of each sequence, made of `offered` techniques, and the kernel after them."""
    given: list[Kernel] = []
    for without in ("", "transpose"):
        order = [t for t in RECURRENCE if t in offered and t != without]
        steps, after = _carried_out(kernel, machine, order)
        if steps and not any(same_kernel(after, other) for other in given):
            given.append(after)
            yield steps, after


def option_of(steps: Sequence[Step], menu: Sequence[MenuOption]) -> MenuOption:
    """The option of the first step that has one, else the first option."""
    found = (o for s in steps for o in menu if o.technique == s.technique)
    return next(found, menu[0])


def _carried_out(
    kernel: Kernel, machine: Machine, techniques: Sequence[str]
) -> tuple[tuple[Step, ...], Kernel]:
    """Each technique in turn, wherever it changes something."""
    steps: list[Step] = []
    for technique in techniques:
        for _ in range(MOST):
            places = steps_for(kernel, machine, technique)
            made = ((s, k) for s in places if (k := s.carried_out(kernel, machine)) is not None)
            step, after = next(made, (None, kernel))
            if step is None:
                break
            steps.append(step)
            kernel = after
    return tuple(steps), kernel
