"""Timed calls of one kernel, on values and addresses that change each time.

The clock is the CPU time of the kernel's process, which the operating system counts and the
evaluator reads. CPU time that the process uses between two calls is added to the earlier call. Work
that a kernel does after it has returned, or before a call on values that are already in memory, is
therefore counted too. Waiting for other processes of the machine is not counted.

With several threads, the CPU time is the sum over all threads and not the duration of the call. The
time of a call is then its wall-clock time plus all CPU time that the process used after the
previous call. The system updates the CPU time of a thread on another core only when the thread
waits, or at a timer tick. If the process is still running when the next call begins, all of its
threads are therefore assumed to have run since the previous call.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from tilewright.core.records import Failed, Stage
from tilewright.native.counters import Counters
from tilewright.native.process import KernelProcess, ProcessGoneError
from tilewright.parts import inputs
from tilewright.parts.case import Case

COUNTED_CALLS = 5
"""Number of further calls whose counters are read. They are separate calls, because counting may
slow a process down.
"""

AWAY_S = 100e-6
"""Seconds of other work on the core after which its caches contain other data."""
LONG_CALL_S = 5e-3
"""Seconds of a call from which on such a disturbance does not matter."""
HIDDEN_S, HIDDEN_SHARE = 2e-3, 0.02
"""CPU seconds of other processes, in addition to a share of the kernel's own, that are
tolerated."""
ATTEMPTS = 3
"""Maximum number of calls, each on new values, until no other process uses the core."""
MOST_REPEATED = 10
"""Maximum number of repeated calls of one kernel in a measurement. If other processes disturb so
many calls, they use the core all the time. Further repetitions would take most of the time without
any benefit.
"""
OTHER_VALUES = 0.2
"""Share of timed calls that follow a call on values of another distribution."""


def is_checked(share: float) -> bool:
    """Whether the outputs of a timed call are compared, which is drawn at random for each call."""
    return secrets.randbelow(1 << 32) < share * (1 << 32)


class CallFailedError(Exception):
    """A timed call failed."""

    def __init__(self, failed: Failed) -> None:
        self.failed = failed


class FreshValues:
    """New values for every timed call.

    The values of one call contain no information about those of another call: they are neither a
    permutation nor a multiple of earlier values. The two processes of a pair cannot communicate, so
    they receive the same values, which halves the cost of drawing. Before a call, outputs have one
    of a few patterns of old contents (`inputs.FILLS`).
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self._rng = rng
        self._fills = [
            {a.name: inputs.poison(a, rng, fill) for a in case.workload.arguments if not a.is_given}
            for fill in inputs.FILLS
        ]
        self._case = self._filled(case)
        self._seen_by: set[KernelProcess] = set()

    def for_call_of(self, process: KernelProcess) -> Case:
        """A case that this process has not received before."""
        if not self._seen_by or process in self._seen_by:
            self._case = self._filled(self._case.redrawn(self._rng))
            self._seen_by.clear()
        self._seen_by.add(process)
        return self._case

    def _filled(self, case: Case) -> Case:
        fill = self._fills[int(self._rng.integers(len(self._fills)))]
        return replace(case, initial={**case.initial, **fill}, alike=case.alike or case)


class OtherValues:
    """The cases on which a kernel is checked, in a random order, each once before any is repeated.

    Timed calls use values of one distribution. A kernel that is correct only for this distribution
    could otherwise count its calls to distinguish timed calls from the checks before them.
    """

    def __init__(self, numbers: Sequence[int], case: Callable[[int], Case]) -> None:
        self._numbers, self._case = tuple(numbers), case
        self._left: list[int] = []

    def next(self) -> Case:
        """The next case, which has not been used more often than any other."""
        if not self._left:
            self._left = list(self._numbers)
        return self._case(self._left.pop(secrets.randbelow(len(self._left))))


class TimedKernel:
    """A kernel's process, with the values for its timed calls."""

    def __init__(
        self,
        process: KernelProcess,
        values: FreshValues,
        timeout_s: float,
        others: OtherValues | None = None,
    ) -> None:
        self._process = process
        self._values = values
        self._others = others
        self._timeout_s = timeout_s
        self._clock_s = self._returned_s = 0.0
        with suppress(ProcessGoneError):  # the first call reports it
            self._clock_s, self._returned_s = process.cpu_s(), time.perf_counter()
        self.last_wall_s = 0.0  # of the last call, until its reply arrived
        # CPU time of other processes between placing the arrays and the last return.
        self._away_s = 0.0
        self._repeated = 0

    def call(self, *, checked: float) -> float:
        """The seconds of one call. Its outputs are compared with the probability `checked`.

        Raises `CallFailedError`.

        A short call is repeated if another process used the core after the arrays were placed,
        because the caches then contain other data. This is detected by the evaluator, independently
        of the duration of the call, and not with several threads.

        Whether a repeated call is compared is drawn again. Otherwise, a kernel that gives up its
        core could find out from the pause after a call whether that call was compared.

        At random, a call on other values precedes the timed call, which is compared and not timed.
        """
        if self._others is not None and is_checked(OTHER_VALUES):
            self._call_on_other_values(self._others.next())
        seconds = self._call(check=is_checked(checked))
        for _ in range(min(ATTEMPTS - 1, MOST_REPEATED - self._repeated)):
            if seconds > LONG_CALL_S or self._away_s < AWAY_S:
                break
            self._repeated += 1
            seconds = self._call(check=is_checked(checked))
        return seconds

    def _call_on_other_values(self, case: Case) -> None:
        """Call the kernel on values of another distribution. CPU time of the process between calls
        is counted as part of the next call.
        """
        try:
            late_s = self._process.cpu_s() - self._clock_s
            self._process.arrays.place(case.initial)
            failed = self._process.call("measure", self._timeout_s)
            failed = failed or compared(self._process, case, "measure")
            self._clock_s, self._returned_s = self._process.cpu_s() - late_s, time.perf_counter()
        except ProcessGoneError:
            return  # as the next call will report
        if failed is not None:
            raise CallFailedError(failed)

    def _call(self, *, check: bool) -> float:
        try:
            seconds = self._clocked(check=check)
        except ProcessGoneError as gone:
            log = "the kernel ended its process, so the clock of the process cannot be read."
            raise CallFailedError(Failed("measure", "crash", log)) from gone
        if not seconds > 0:
            log = f"a call of the kernel took {seconds:g} s of its process's CPU time."
            raise CallFailedError(Failed("measure", "invalid", log))
        return seconds

    def _clocked(self, *, check: bool) -> float:
        case = self._values.for_call_of(self._process)
        alone = self._process.threads == 1
        placed_s = self._elapsed_less_own_s() if alone else 0.0
        # This core writes the arrays just before the call, so that they are in its cache, as if
        # another kernel had produced them.
        self._process.arrays.place(case.initial)
        self._process.arrays.read()
        between_s, started = self._late_s(), time.perf_counter()
        failed = self._process.call("measure", self._timeout_s)
        self.last_wall_s = wall_s = time.perf_counter() - started
        if alone:
            self._away_s = self._elapsed_less_own_s() - placed_s
        elif failed is None:
            self._clock_s, self._returned_s = self._process.cpu_s(), time.perf_counter()
        if failed is None and check:
            failed = compared(self._process, case, "measure")
        if failed is not None:
            raise CallFailedError(failed)
        if not alone:
            return wall_s + between_s
        before, self._clock_s = self._clock_s, self._process.cpu_s()
        return self._clock_s - before

    def _elapsed_less_own_s(self) -> float:
        """A number that increases by the CPU time that other processes get on the core of the
        evaluator and the kernel.
        """
        return time.perf_counter() - time.thread_time() - self._process.cpu_s()

    def _late_s(self) -> float:
        """CPU seconds of several threads since the previous call."""
        if self._process.threads == 1:
            return 0.0  # a part of that call
        if self._process.is_asleep():
            return self._process.cpu_s() - self._clock_s
        return (time.perf_counter() - self._returned_s) * self._process.threads

    def account(self) -> None:
        """Compare the clock with that of the control group, if there is one.

        Raises `CallFailedError` if processes other than the one whose clock is read have computed.
        """
        try:
            hidden_s, own_s = self._process.hidden_s(), self._process.cpu_s()
        except ProcessGoneError:
            return  # as the next call will report
        if hidden_s > HIDDEN_S + HIDDEN_SHARE * own_s:
            log = (
                f"processes other than the kernel's used {hidden_s:.3g} s of CPU time, which are "
                f"not part of the kernel's own CPU time of {own_s:.3g} s."
            )
            raise CallFailedError(Failed("measure", "forbidden_call", log))

    def counts(self) -> dict[str, float]:
        """Hardware counters per call. Raises `CallFailedError` and `OSError`."""
        counters = Counters(self._process.pid)
        try:
            for _ in range(COUNTED_CALLS):
                self._call(check=is_checked(1 / COUNTED_CALLS))
            return {name: n / COUNTED_CALLS for name, n in counters.counts().items()}
        finally:
            counters.close()


def compared(process: KernelProcess, case: Case, stage: Stage) -> Failed | None:
    """How the arrays after the last call differ from the correct results, or None."""
    beside = process.arrays.written_beside()
    if beside is not None:
        return Failed(stage, "illegal_address", f"{beside}.")
    mismatch = case.mismatch(process.arrays.outputs_now())
    return None if mismatch is None else Failed(stage, "wrong_result", f"{mismatch}.")
