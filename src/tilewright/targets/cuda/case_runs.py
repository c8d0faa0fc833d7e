"""Which runs a kernel has for its cases, and how the outputs of these runs are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.core.records import Check, Failed
from tilewright.parts.case import Case
from tilewright.targets.cuda import partial_runs
from tilewright.targets.cuda.emulation import OLD_BYTES, ORDERS, Run, RunResult


def turns(cases: Sequence[Case], share: float, orders: int = len(ORDERS)) -> list[tuple[Case, Run]]:
    """The order of threads for each case, with different contents of memory that a call has not
    written. If only some blocks are run, this includes the outputs. The first case is run in so
    many `orders`, each of the others in one."""
    first = [(case, i) for case in cases[:1] for i in range(orders)]
    turns = first + [(case, i % len(ORDERS)) for i, case in enumerate(cases[1:], 1)]
    fills = partial_runs.FILLS if share < 1 else (0,)
    olds = [OLD_BYTES[(n + n // len(ORDERS)) % len(OLD_BYTES)] for n in range(len(turns))]
    return [
        (case, Run(case.initial, ORDERS[i], case.seed, share, fills[i % len(fills)], old))
        for (case, i), old in zip(turns, olds, strict=True)
    ]


def compared(runs: Sequence[tuple[Case, Run]], ran: RunResult) -> list[Check] | tuple[Failed, Run]:
    """The checks of the completed runs, or how the first wrong run differs, with this run."""
    checks = list[Check]()
    ended = list(zip(runs, ran.outputs, strict=False))
    for case in dict.fromkeys(case for (case, _), _ in ended):
        own = [(run, outputs) for (other, run), outputs in ended if other is case]
        only = None
        if own[0][0].share < 1:
            only = partial_runs.written_in_any(case, [(run.fill, outputs) for run, outputs in own])
        found = [case.mismatch(outputs, only) for _, outputs in own]
        wrong = next((i for i, mismatch in enumerate(found) if mismatch is not None), None)
        if wrong is None:
            checks.append(case.passed(own[0][1], only))
        elif None in found:
            log = (
                f"the result depends on the order in which threads run, because a barrier or an "
                f"atomic operation is missing, on the contents of memory that the kernel has not "
                f"written, or on the addresses of the arrays; all of these differ between calls. "
                f"With threads {own[wrong][0].order}, {found[wrong]}."
            )
            return Failed("check", "race", log), own[wrong][0]
        else:
            return Failed("check", "wrong_result", f"{found[wrong]}."), own[wrong][0]
    return checks


def alike(cases: Sequence[Case], share: float) -> list[tuple[Case, Run]]:
    """A run for each case, in a random order of threads, in which a lock is sometimes taken. The
    blocks, and the contents of memory that was never written, are the same in all of them.
    """
    found = []
    for case, run in turns(cases, share, orders=1):
        seed = case.seed if share == 1 else cases[0].seed
        found.append((case, replace(run, order=ORDERS[2], seed=seed, old=OLD_BYTES[0])))
    return found


def of_each_distribution(runs: Sequence[tuple[Case, Run]]) -> list[Run]:
    """The first run, a run for the inputs of each distribution in the same order of threads, and
    the first run again with arrays at other addresses. The order does not depend on the number of
    atomic operations, which may depend on input values."""
    chosen = {case.check.distribution: run for case, run in reversed(runs)}
    first = replace(runs[0][1], alone=True)
    each = (replace(run, seed=first.seed, fill=0, alone=True) for run in chosen.values())
    return [first, *each, replace(first, fill=0, moved=True)]
