"""Rewrites that take the arguments of a step as texts.

The texts are names of buffers, labels of loops, numbers, and words such as `delayed`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, Loop, walk
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.rewrites.alternate_banks import alternate_banks
from tilewright.proposers.rewriter.rewrites.loops import interchange
from tilewright.proposers.rewriter.rewrites.multibuffer import multibuffer
from tilewright.proposers.rewriter.rewrites.pipeline import delay_stores
from tilewright.proposers.rewriter.rewrites.place_settings import with_forms_apart
from tilewright.proposers.rewriter.rewrites.promote import promote
from tilewright.proposers.rewriter.rewrites.retile import retile
from tilewright.proposers.rewriter.rewrites.reuse import reuse_latched
from tilewright.proposers.rewriter.rewrites.separate_rows import separated
from tilewright.proposers.rewriter.rewrites.structure import peel
from tilewright.proposers.rewriter.rewrites.widen import widened_everywhere


def loop_at(kernel: Kernel, label: str) -> Loop:
    """The loop with a label; `NotApplicable` if there is none."""
    for found, loop, _ in labelled_loops(kernel.body):
        if found == label:
            return loop
    known = ", ".join(found for found, _, _ in labelled_loops(kernel.body)) or "none"
    raise NotApplicable(f"there is no loop {label} (loops: {known})")


def keep_resident(kernel: Kernel, machine: Machine, buffer: str, label: str, how: str) -> Kernel:
    """Loads a buffer once for a whole loop. `how` says where, as in `resident_sites`."""
    kernel = with_forms_apart(kernel, machine)
    loop = loop_at(kernel, label)
    if how == "inside":
        kernel = interchange(kernel, machine, loop)
        work = set(walk(loop.body))
        loop = next(
            found
            for _, found, _ in labelled_loops(kernel.body)
            if found.var == loop.var and found.body[-1] in work
        )
    kernel = promote(kernel, machine, buffer, loop, at_first_use=how == "at-first-use")
    return widened_everywhere(simplify(kernel), machine)


def load_block(kernel: Kernel, machine: Machine, buffer: str, label: str) -> Kernel:
    """Loads the data of a buffer that a loop uses before it, with moves as wide as allowed."""
    kernel = with_forms_apart(kernel, machine)
    kernel = promote(kernel, machine, buffer, loop_at(kernel, label))
    return widened_everywhere(simplify(kernel), machine)


def on_loop(rewrite: Callable[[Kernel, Machine, Loop], Kernel]) -> Callable[..., Kernel]:
    """A rewrite of a loop that takes the label of the loop."""

    def apply(kernel: Kernel, machine: Machine, label: str) -> Kernel:
        return rewrite(kernel, machine, loop_at(kernel, label))

    return apply


def on_loop_by(rewrite: Callable[[Kernel, Machine, Loop, int], Kernel]) -> Callable[..., Kernel]:
    """A rewrite of a loop by a number that takes the label of the loop and the number."""

    def apply(kernel: Kernel, machine: Machine, label: str, number: str) -> Kernel:
        return rewrite(kernel, machine, loop_at(kernel, label), int(number))

    return apply


def use_accumulators(
    kernel: Kernel, machine: Machine, buffer: str, label: str, slots: str, how: str
) -> Kernel:
    """Gives results several slots that the iterations of a loop use in turn. If `how` is
    `delayed`, they are stored one iteration later."""
    rewrite = delay_stores if how == "delayed" else multibuffer
    return rewrite(kernel, machine, buffer, loop_at(kernel, label), int(slots))


def on_slots(
    rewrite: Callable[[Kernel, Machine, str, Loop, int], Kernel],
) -> Callable[..., Kernel]:
    """A rewrite of a buffer in a loop that takes the label of the loop and the number of slots."""

    def apply(kernel: Kernel, machine: Machine, buffer: str, label: str, slots: str) -> Kernel:
        return rewrite(kernel, machine, buffer, loop_at(kernel, label), int(slots))

    return apply


def keep_operand(kernel: Kernel, machine: Machine, label: str, factor: str) -> Kernel:
    """Processes several tiles of a loop in turn with each operand in the array.

    Without this, `retile` is seldom useful for tiles that do not fill the array. Only if the
    operand is kept does a product of few rows take only the time of its own rows.
    """
    kernel = simplify(retile(kernel, machine, loop_at(kernel, label), int(factor)))
    return reuse_latched(kernel, machine)


def peel_iteration(kernel: Kernel, machine: Machine, label: str, which: str) -> Kernel:
    """Peels the first or the last iteration off a loop."""
    return peel(kernel, machine, loop_at(kernel, label), which)


def alternate_parts(kernel: Kernel, machine: Machine, buffer: str, label: str) -> Kernel:
    """Places the parts of a buffer that a loop writes in different banks in turn."""
    return alternate_banks(kernel, machine, buffer, loop_at(kernel, label))


def chain_products(kernel: Kernel, machine: Machine) -> Kernel:
    """The naive loop nest of what a kernel computes, in which products read the results of earlier
    products in local memory; `NotApplicable` if it cannot be derived."""
    return discard_schedule(kernel, machine, chained=True)


def discard_schedule(kernel: Kernel, machine: Machine, *, chained: bool = False) -> Kernel:
    """The naive loop nest of what a kernel computes; `NotApplicable` if it cannot be derived."""
    try:
        return separated(raised(emit(kernel), machine, chained=chained), machine)
    except NotRaised as reason:
        found = str(reason).rstrip(".")
        raise NotApplicable(f"what the kernel computes could not be derived: {found}") from reason
