"""Chooses and evaluates some blocks of a kernel that is too large to run completely on the CPU.

Each run executes a random choice of the blocks of the only launch. To find the elements that these
blocks wrote, the outputs are compared with their contents before the call. Only these elements are
compared with the reference. Elements that no block writes are not found in this way; they are found
by counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument, Failed, Tolerance, Workload
from tilewright.parts.case import Case, Only
from tilewright.targets.cuda.cpu_program import not_checked
from tilewright.targets.cuda.emulation import Part

MOST_OF_A_RUN = 1 << 27
"""Approximate number of multiply-adds in a run of some blocks."""
MOST_OF_A_REFERENCE = 1 << 32
"""Multiply-adds from which on a reference takes too long: its error is found by computing it in
several orders of sums, of which each takes about a second for 2^30."""
MOST_WITH_TOLERANCE = 1 << 36
"""The same limit if the task has a tolerance. Expected outputs are then computed only once, by a
library.
"""
FILLS = (0, 0x3E, 0x3F)
"""Bytes with which outputs are changed before the runs of a case, in turn. The first makes the
outputs NaN, which a sum that begins with it does not change; the others result in numbers of about
10 and 5.
"""
_ENOUGH = 0.98
"""Maximum share of unchanged elements in an output, because integers may have had the same value
before by chance."""


def share_of(operations: int) -> float:
    """The share of the blocks for a call with this number of multiply-adds."""
    return min(1.0, MOST_OF_A_RUN / operations)


def refused_task(workload: Workload) -> Failed | None:
    """The reason why a run of some of the blocks cannot check any kernel of the task; None if it
    can."""
    operations, automatic = workload.operations, workload.tolerance == Tolerance()
    most = MOST_OF_A_REFERENCE if automatic else MOST_WITH_TOLERANCE
    if operations > most:
        return not_checked(
            f"one call takes {operations:.2g} multiply-adds, and the reference of more than "
            f"{most:.2g} takes too long on the CPU: give smaller shapes"
            + f" (with a [tolerance], up to {MOST_WITH_TOLERANCE:.2g} are possible)"
            * automatic
        )
    in_place = next((a.name for a in workload.arguments if a.is_written and a.is_given), None)
    if in_place is not None:
        return not_checked(
            f"one call takes {operations:.2g} multiply-adds, so that only some blocks can be run "
            f"on the CPU, but for {in_place}, which is read and written, the elements that they "
            "wrote cannot be determined: give smaller shapes"
        )
    return None


def written_in_any(case: Case, runs: Sequence[tuple[int, Mapping[str, bytes]]]) -> Only:
    """The elements of each output that changed in one of the runs, each with its fill and its
    outputs."""
    found: dict[str, NDArray[np.bool_]] = {}
    for argument in (a for a in case.workload.arguments if a.is_written):
        before = case.initial[argument.name]
        word = np.dtype(f"u{before.dtype.itemsize}")
        bits = np.ascontiguousarray(before).view(word)
        marked = np.zeros(argument.shape, bool)
        for fill, outputs in runs:
            after = np.frombuffer(outputs[argument.name], word).reshape(argument.shape)
            marked |= after != bits ^ word.type(fill << 8 * (word.itemsize - 1))
        found[argument.name] = marked
    return found


def nothing_left_out(arguments: Sequence[Argument], part: Part | None) -> Failed | None:
    """Why the blocks may leave elements of an output unchanged, or None.

    If no block writes more elements than the observed maximum, all blocks together write at most
    this maximum multiplied by their number.
    """
    if part is None:
        return not_checked("it launches nothing, and a call is too large to be run completely")
    for argument in (a for a in arguments if a.is_written):
        most, size = part.written.get(argument.name, 0), prod(argument.shape)
        if most * part.of < _ENOUGH * size:
            return not_checked(
                f"only {part.blocks} of {part.of} blocks were run on the CPU, and none of the "
                f"examined ones wrote more than {most} elements of {argument.name}: {part.of} such "
                f"blocks leave {size - most * part.of} of its {size} elements as they were"
            )
    return None


def in_words(part: Part) -> str:
    """Which part of a kernel was run, in words."""
    return f"{part.blocks} of {part.of} blocks, which differ between the sets of inputs"
